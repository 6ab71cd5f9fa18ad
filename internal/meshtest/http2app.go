package meshtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// H2CApp is an HTTP/2 application without TLS, on net/http's server. It speaks
// HTTP/1.1 as well, to show when a waypoint picks the wrong one.
type H2CApp struct {
	*Listener
	recorder
	Name string

	handler atomic.Pointer[http.Handler]
}

// H2C starts an HTTP/2 application. It answers with the request as JSON.
func (m *Mesh) H2C(name, addr string) *H2CApp {
	m.t.Helper()
	app := &H2CApp{Name: name}
	httpServer := &http.Server{Handler: app, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	httpServer.Protocols.SetUnencryptedHTTP2(true)
	httpServer.Protocols.SetHTTP1(true)
	app.Listener = m.bind(addr)
	m.tasks.Go(func() { httpServer.Serve(app.Listener) }) //nolint:errcheck // it ends with the listener
	return app
}

// Handle has requests from now on answered by h; nil: as JSON.
func (a *H2CApp) Handle(h http.HandlerFunc) {
	if h == nil {
		a.handler.Store(nil)
		return
	}
	handler := http.Handler(h)
	a.handler.Store(&handler)
}

// ServeHTTP records the request and answers it.
func (a *H2CApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // the server wrote it
	recorded := &Request{
		App: a.Name, Method: r.Method, Target: r.RequestURI, Proto: r.Proto, Host: r.Host,
		Header: sortedFields(r.Header), Peer: peer,
	}
	record := a.add(recorded)
	r.Body = io.NopCloser(io.TeeReader(r.Body, record))
	if h := a.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	record.end(sortedFields(r.Trailer))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-App", a.Name)
	json.NewEncoder(w).Encode(recorded) //nolint:errcheck // the client may have gone
}

func sortedFields(header http.Header) (fields []Field) {
	for name, values := range header {
		for _, value := range values {
			fields = append(fields, Field{strings.ToLower(name), value})
		}
	}
	slices.SortStableFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// EchoWebSocket accepts a WebSocket and sends back each message: a handler for
// [H2CApp.Handle].
func EchoWebSocket(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // any Origin will do
	if err != nil {
		return // it has answered
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	for {
		kind, message, err := ws.Read(r.Context())
		if err != nil {
			return
		}
		if err := ws.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
}
