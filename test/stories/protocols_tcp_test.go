package stories

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// tcpStage has an application at 10.0.0.1: port 3306 is declared to be TCP, port
// 7000 declares nothing.
func tcpStage(t *testing.T, serve func(*net.TCPConn), change ...func(*app.Options)) (*stage, *meshtest.NodeProxy) {
	t.Helper()
	s := newStage(t, world(pod("db", 21), service("db", "10.0.0.1", port(3306, "tcp"), port(7000, ""))), change...)
	s.TCP("db", s.Addr(21, 3306), serve)
	s.TCP("db", s.Addr(21, 7000), serve)
	return s, s.node("db", 21)
}

// TestServerFirstDeclared: on a declared port nothing waits for the client, or
// for the wait that undeclared ports have.
func TestServerFirstDeclared(t *testing.T) {
	t.Parallel()
	never := func(o *app.Options) { o.DetectTimeout = time.Hour }
	s, node := tcpStage(t, meshtest.Greet("220 hi\r\n"), never)
	c := s.open("10.0.0.1:3306")
	c.hear("220 hi\r\n")
	c.say("EHLO me\n")
	c.hear("you said EHLO me\n")
	c.closeWrite()
	if rest := c.rest(); rest != "" {
		t.Errorf("after the end came %q", rest)
	}
	connect := node.Connects()[0]
	if forwarded := connect.Get("forwarded"); !strings.Contains(forwarded, `for="127.0.0.1:`) || !strings.Contains(forwarded, "host=db.default.svc.cluster.local") {
		t.Errorf("the node proxy was told forwarded: %s", forwarded)
	}
	logLine{
		"method": nil, "bytes_received": len("EHLO me\n"), "bytes_sent": len("220 hi\r\nyou said EHLO me\n"), "response_flags": nil,
		"upstream_host": s.Addr(21, 3306), "source_principal": clientID, "destination_service": "db.default.svc.cluster.local",
		"upstream_cluster": "inbound-vip|3306|tcp|db.default.svc.cluster.local",
	}.in(t, s.logged(1)[0])
	if opened, closed := s.metric("istio_tcp_connections_opened_total"), s.metric("istio_tcp_connections_closed_total"); opened != 1 || closed != 1 {
		t.Errorf("%v connections opened and %v closed", opened, closed)
	}
	if unknown := s.metric("istio_tcp_connections_opened_total", `="unknown"`); unknown != 0 {
		t.Errorf("labels are unknown in\n%s", s.wp.Metrics())
	}
}

// TestHalfCloseWithTwentyMegabytes: both ends close their direction first, in
// turn, and the other direction still carries everything.
func TestHalfCloseWithTwentyMegabytes(t *testing.T) {
	t.Parallel()
	const size = 20_000_000
	payload := bytes.Repeat([]byte("half-closed "), size/12)
	t.Run("the client first", func(t *testing.T) {
		t.Parallel()
		s, _ := tcpStage(t, func(conn *net.TCPConn) {
			if got, err := io.ReadAll(conn); err != nil || string(got) != "send it" {
				t.Errorf("the application read %q: %v", got, err)
			}
			conn.Write(payload)
		})
		c := s.open("10.0.0.1:3306")
		c.say("send it")
		c.closeWrite()
		if got := c.rest(); sha256.Sum256([]byte(got)) != sha256.Sum256(payload) {
			t.Errorf("%d bytes came, expected the %d that were sent", len(got), len(payload))
		}
		logLine{"bytes_sent": len(payload), "response_flags": nil}.in(t, s.logged(1)[0])
	})
	t.Run("the server first", func(t *testing.T) {
		t.Parallel()
		got := make(chan []byte, 1)
		s, _ := tcpStage(t, meshtest.Farewell("bye", got))
		c := s.open("10.0.0.1:3306")
		if rest := c.rest(); rest != "bye" {
			t.Fatalf("heard %q", rest)
		}
		if _, err := c.Write(payload); err != nil {
			t.Fatal(err)
		}
		c.closeWrite()
		if read := <-got; sha256.Sum256(read) != sha256.Sum256(payload) {
			t.Errorf("the application read %d bytes, expected the %d that were sent", len(read), len(payload))
		}
		logLine{"bytes_received": len(payload), "response_flags": nil}.in(t, s.logged(1)[0])
	})
}

// TestVanishedClientFreesTheApplication: the half-closed connection of a client
// that is gone does not stay open for the other side's sake.
func TestVanishedClientFreesTheApplication(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s, _ := tcpStage(t, func(conn *net.TCPConn) {
		if err := conn.CloseWrite(); err != nil {
			ended <- err
			return
		}
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	})
	tunnel, err := s.client.Tunnel(t.Context(), s.wp.Addr)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := tunnel.Connect(t.Context(), "10.0.0.1:3306")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("read %v, expected the application's end", err)
	}
	tunnel.Close() // the node is gone, without a word
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the application's connection lives on")
	}
	logLine{"response_flags": "DC"}.in(t, s.logged(1)[0])
}

// TestIdleTCPConnections: with an idle timeout a connection lives while something
// moves, and
// ends when nothing has moved, in either direction, for so long.
func TestIdleTCPConnections(t *testing.T) {
	t.Parallel()
	s, _ := tcpStage(t, meshtest.Echo, func(o *app.Options) { o.TCPIdleTimeout = short })
	c := s.open("10.0.0.1:3306")
	for range 5 { // in all longer than the timeout
		c.say("x")
		c.hear("x")
		time.Sleep(short / 4) //nolint:forbidigo // what is told of here is time
	}
	start := time.Now()
	if _, err := c.in.ReadByte(); err == nil {
		t.Fatal("an idle connection goes on")
	}
	if took := time.Since(start); took > 5*short {
		t.Errorf("it was idle for %v", took)
	}
	logLine{"response_flags": "SI"}.in(t, s.logged(1)[0])
}

// TestApplicationResets: a reset behind the node proxy is a clean end to us, and so
// it is to the client.
func TestApplicationResets(t *testing.T) {
	t.Parallel()
	s, _ := tcpStage(t, func(conn *net.TCPConn) {
		io.WriteString(conn, "last words")
		io.ReadFull(conn, make([]byte, 1))
		conn.SetLinger(0)
	})
	c := s.open("10.0.0.1:3306")
	c.hear("last words")
	c.say("!")
	if rest := c.rest(); rest != "" {
		t.Errorf("after the reset came %q", rest)
	}
}

// TestPlainApplicationResets: over plain TCP a reset is seen as one, and passed on.
func TestPlainApplicationResets(t *testing.T) {
	t.Parallel()
	s := newStage(t, world(plainPod("old", 31), service("old", "10.0.0.1", port(3306, "tcp"))))
	s.TCP("old", s.Addr(31, 3306), func(conn *net.TCPConn) {
		io.ReadFull(conn, make([]byte, 1))
		conn.SetLinger(0)
	})
	c := s.open("10.0.0.1:3306")
	c.say("!")
	_, err := c.in.ReadByte()
	var reset *meshtest.ResetError
	if !errors.As(err, &reset) {
		t.Errorf("the connection ended with %v, expected a reset", err)
	}
	logLine{"response_flags": "UC"}.in(t, s.logged(1)[0])
}

// TestManyTCPConnections: many at once, each with what is its own.
func TestManyTCPConnections(t *testing.T) {
	t.Parallel()
	s, node := tcpStage(t, meshtest.Echo)
	const conns = 300
	failed := make(chan error)
	for i := range conns {
		go func() { failed <- echoTCP(t.Context(), s, fmt.Sprintf("connection %d", i)) }()
	}
	for range conns {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := len(node.Connects()); n != conns {
		t.Errorf("%d CONNECTs, expected %d", n, conns)
	}
}

func echoTCP(ctx context.Context, s *stage, text string) error {
	stream, err := s.client.Dial(ctx, s.wp.Addr, "10.0.0.1:3306")
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := io.WriteString(stream, text); err != nil {
		return err
	}
	if err := stream.CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(stream)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%q came back as %q", text, got)
	}
	return err
}
