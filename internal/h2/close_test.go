package h2

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

func TestServerDrains(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	c1, s1 := d.open(t)
	d.turn(d.server.Drain)
	// The client has not read the GOAWAY yet: this one is under way.
	var c2 *Stream
	d.turn(func(b *task.Batch) {
		var err error
		if c2, err = d.client.Open(b, &Head{Method: "CONNECT", Authority: "a:1"}, false, nil); err != nil {
			t.Fatal(err)
		}
	})
	d.move()
	if len(d.serverEvents.accepted) != 2 {
		t.Fatal("a stream that crossed the first GOAWAY was not accepted")
	}
	s2 := d.serverEvents.accepted[1]
	d.turn(func(b *task.Batch) {
		_ = s2.WriteHead(b, &Head{Status: 200}, false)
		if _, err := d.client.Open(b, &Head{Method: "CONNECT", Authority: "a:1"}, false, nil); err != ErrNoCapacity {
			t.Errorf("Open on a draining connection: %v", err)
		}
	})
	if !d.client.Draining() || d.client.Capacity() != 0 || d.client.Err() != nil || c2.ReadErr() != nil {
		t.Error("the client must drain and lose nothing")
	}
	d.turn(d.server.DrainFinal)
	d.move()
	for i, s := range []*Stream{c1, c2, s1, s2} {
		if s.ReadErr() != nil {
			t.Errorf("stream %d broke: %v", i, s.ReadErr())
		}
		d.turn(func(b *task.Batch) { _ = s.CloseWrite(b) })
	}
	d.move()
	if !d.toClient.shut || !d.toServer.shut {
		t.Error("the last stream did not end the connection")
	}
	var ce *ConnError
	if err := d.client.Err(); !errors.As(err, &ce) || ce.Code != NoError {
		t.Errorf("client ended with %v", err)
	}
	if c1.ReadErr() != io.EOF || s2.ReadErr() != io.EOF {
		t.Error("a stream that had ended in order broke")
	}
}

// TestFinalGoAwayRefusesTheRest: streams that crossed the last GOAWAY fail at once
// on the client, as unprocessed, and are ignored by the server.
func TestFinalGoAwayRefusesTheRest(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	c1, s1 := d.open(t)
	d.turn(d.server.DrainFinal)
	var c2 *Stream
	var woken wakes
	d.turn(func(b *task.Batch) {
		c2, _ = d.client.Open(b, &Head{Method: "CONNECT", Authority: "a:1"}, false, &woken)
		_, _ = c2.Write(b, []byte("early"))
	})
	d.move()
	if !c2.Unprocessed() || woken == 0 || c2.ReadErr() == nil {
		t.Errorf("unprocessed %v, woken %d, %v", c2.Unprocessed(), woken, c2.ReadErr())
	}
	if len(d.serverEvents.accepted) != 1 {
		t.Error("the server accepted it")
	}
	d.turn(func(b *task.Batch) { _, _ = s1.Write(b, []byte("on")) })
	d.move()
	if string(c1.Peek()) != "on" {
		t.Error("the stream below the last id does not live on")
	}
}

func TestCloseFailsStreams(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	c1, s1 := d.open(t)
	d.turn(func(b *task.Batch) {
		_, _ = s1.Write(b, []byte("last words"))
		d.server.Close(b, EnhanceYourCalm, "enough")
	})
	d.move()
	if !errors.Is(s1.ReadErr(), EnhanceYourCalm) || !d.toClient.shut {
		t.Errorf("server: %v", s1.ReadErr())
	}
	d.turn(func(b *task.Batch) { d.client.Closed(b, io.EOF) })
	if string(c1.Peek()) != "last words" {
		t.Error("what came before was lost")
	}
	if err := c1.ReadErr(); err == nil || err == io.EOF {
		t.Errorf("client: %v", err)
	}
	if !d.toServer.shut {
		t.Error("the client did not end its side too")
	}
}

func TestClientDrains(t *testing.T) {
	d := newDuo(t, Config{}, Config{})
	c1, s1 := d.open(t)
	d.turn(d.client.Drain)
	d.turn(func(b *task.Batch) { _ = s1.CloseWrite(b); _ = c1.CloseWrite(b) })
	d.move()
	if !d.toServer.shut || d.client.Err() == nil || d.server.Err() == nil {
		t.Error("the connection did not end with its last stream")
	}
	if c1.ReadErr() != io.EOF || s1.ReadErr() != io.EOF {
		t.Errorf("%v, %v", c1.ReadErr(), s1.ReadErr())
	}
}

// TestGoAwayFromNetHTTP shuts net/http's server down in the middle of a request.
func TestGoAwayFromNetHTTP(t *testing.T) {
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	begun, finish := make(chan struct{}), make(chan struct{})
	ln := listenLocal(t)
	srv := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "done")
	})}
	srv.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(ln)
	}()
	c := dial(t, sched, Config{}, ln.Addr().String())
	run(sched, func(tk *task.Task) {
		s, err := c.Open(tk.Batch(), &Head{Method: "GET", Scheme: "http", Authority: "a", Path: "/"}, true, tk)
		if err != nil {
			t.Error(err)
			return
		}
		tk.Block(func() {
			<-begun
			go func() { _ = srv.Shutdown(t.Context()) }()
			for !c.Draining() {
				<-time.After(time.Millisecond)
			}
			close(finish)
		})
		if got, err := readAll(tk, s); string(got) != "done" || err != nil {
			t.Errorf("answer %q, %v", got, err)
		}
		s.Done(tk.Batch())
	})
	if c.Err() == nil {
		t.Error("the drained connection still lives")
	}
	<-served
}

// keepaliveConfig has the timers of a test run fast.
func keepaliveConfig(sched *task.Scheduler) Config {
	return Config{Scheduler: sched, PingInterval: 10 * time.Millisecond, PingTimeout: 20 * time.Millisecond}
}

func TestKeepaliveCutsTheDead(t *testing.T) {
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	gone := make(chan error, 1)
	c := NewClient(cutWatch{new(pipe), gone}, keepaliveConfig(sched), &events{})
	sched.Turn(c.Start)
	if err := <-gone; err == nil || c.Err() == nil {
		t.Error("cut without a cause")
	}
}

// cutWatch reports Abort; writes are lost.
type cutWatch struct {
	*pipe
	gone chan error
}

func (w cutWatch) Write(_ *task.Batch, p []byte) (int, error) { return len(p), nil }
func (w cutWatch) Abort(_ *task.Batch, cause error)           { w.gone <- cause }

func TestKeepaliveSparesTheLiving(t *testing.T) {
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	addr := listen(t, sched, Config{}, echo)
	c := dial(t, sched, keepaliveConfig(sched), addr)
	<-time.After(100 * time.Millisecond) // several intervals, answered by pongs
	if err := c.Err(); err != nil {
		t.Error(err)
	}
}

// TestLingerEndsThePeerThatDoesNot: after our GOAWAY the peer has a limited time.
func TestLingerEndsThePeerThatDoesNot(t *testing.T) {
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	gone := make(chan error, 1)
	c := NewClient(cutWatch{new(pipe), gone}, keepaliveConfig(sched), &events{})
	sched.Turn(c.Start)
	sched.Turn(c.Drain)
	if err := <-gone; err == nil {
		t.Error("cut without a cause")
	}
}

// TestNestedConnectionsAreNotPinged: their carrier is, and a gRPC server ends
// connections that are.
func TestNestedConnectionsAreNotPinged(t *testing.T) {
	sched := task.NewScheduler(task.Coroutines)
	defer sched.Close()
	for _, cfg := range []Config{{Depth: 1}, {PingInterval: -1}} {
		cfg.Scheduler = sched
		c := NewClient(new(pipe), cfg, &events{})
		sched.Turn(c.Start)
		if c.keepalive.timer != nil {
			t.Errorf("%+v has a timer", cfg)
		}
	}
}

// TestUnsentRequestIsUnprocessed: the transport breaks before it has taken all of
// the second request's head.
func TestUnsentRequestIsUnprocessed(t *testing.T) {
	l := newLone(t, false, Config{})
	open := func() (s *Stream) {
		l.sched.Turn(func(b *task.Batch) {
			var err error
			if s, err = l.c.Open(b, &Head{Method: "CONNECT", Authority: "a:1"}, false, nil); err != nil {
				t.Fatal(err)
			}
		})
		return s
	}
	first := open()
	l.pipe.limit = len(l.pipe.sent) + 5
	second := open()
	l.sched.Turn(func(b *task.Batch) { l.c.Closed(b, errors.New("broken")) })
	if first.Unprocessed() || !second.Unprocessed() {
		t.Errorf("unprocessed: %v, %v, want only the second", first.Unprocessed(), second.Unprocessed())
	}
}
