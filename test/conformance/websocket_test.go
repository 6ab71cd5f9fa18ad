package conformance

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// dialWebSocket opens one to the application at host, for half a minute at most.
func dialWebSocket(t *testing.T, url string) (*websocket.Conn, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	ws, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: newWebClient(t), Subprotocols: []string{"echo"}})
	if err != nil {
		t.Fatalf("%v (response %v)", err, resp)
	}
	t.Cleanup(func() { ws.CloseNow() })
	ws.SetReadLimit(8 << 20)
	return ws, ctx
}

func TestWebSocket(t *testing.T) {
	m := newMesh(t, gateway+service("chat", 21, 8080, "http")+service("wss", 22, 8080, "kubernetes.io/ws"))
	for host, name := range map[byte]string{21: "chat", 22: "wss"} {
		m.H2C(name, m.Addr(host, 8080)).Handle(chat)
		m.node(name, host)
		url := "ws://" + m.tunnel(100+host, 8080, vip(host, 8080))
		t.Run(name+": messages", func(t *testing.T) { exchangeMessages(t, url) })
		t.Run(name+": the client closes", func(t *testing.T) {
			ws, _ := dialWebSocket(t, url)
			if err := ws.Close(websocket.StatusNormalClosure, "bye"); err != nil {
				t.Errorf("the closing handshake: %v", err)
			}
		})
		t.Run(name+": the application closes", func(t *testing.T) {
			ws, ctx := dialWebSocket(t, url+"/enough")
			_, _, err := ws.Read(ctx)
			if got := websocket.CloseStatus(err); got != 4001 {
				t.Errorf("closed with %d (%v), expected 4001", got, err)
			}
		})
	}
}

// chat echoes, and at /enough closes at once.
func chat(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/enough" {
		meshtest.EchoWebSocket(w, r)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	ws.Close(4001, "enough")
}

func exchangeMessages(t *testing.T, url string) {
	ws, ctx := dialWebSocket(t, url)
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 1 << 20, 5 << 20} {
		for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
			message := bytes.Repeat([]byte("x"), size)
			if err := echoed(ctx, ws, kind, message); err != nil {
				t.Fatalf("%v of %d bytes: %v", kind, size, err)
			}
		}
	}
	reading := ws.CloseRead(ctx) // a pong is only seen by who reads
	if err := ws.Ping(reading); err != nil {
		t.Errorf("ping: %v", err)
	}
}

func echoed(ctx context.Context, ws *websocket.Conn, kind websocket.MessageType, message []byte) error {
	sent := make(chan error, 1)
	go func() { sent <- ws.Write(ctx, kind, message) }()
	gotKind, got, err := ws.Read(ctx)
	if err != nil {
		return err
	}
	if gotKind != kind || !bytes.Equal(got, message) {
		return fmt.Errorf("%v of %d bytes came back", gotKind, len(got))
	}
	return <-sent
}
