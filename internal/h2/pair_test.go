package h2

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bothModes runs f on coroutines and on goroutines.
func bothModes(t *testing.T, f func(t *testing.T, s *task.Scheduler)) {
	for _, mode := range []task.Mode{task.Coroutines, task.Goroutines} {
		t.Run(mode.String(), func(t *testing.T) {
			s := task.NewScheduler(mode)
			defer s.Close()
			f(t, s)
		})
	}
}

// pipe is a transport in memory: what is written waits until the test moves it.
type pipe struct {
	sent   []byte
	limit  int // bytes that it holds; 0: any number
	shut   bool
	cause  error // of Abort
	waker  task.Waker
	writes int
}

func (p *pipe) Write(_ *task.Batch, d []byte) (int, error) {
	if p.cause != nil {
		return 0, p.cause
	}
	p.writes++
	n := len(d)
	if p.limit > 0 {
		n = min(n, p.limit-len(p.sent))
	}
	p.sent = append(p.sent, d[:n]...)
	return n, nil
}

func (p *pipe) CloseWrite(*task.Batch) error {
	p.shut = true
	return nil
}

func (p *pipe) Abort(_ *task.Batch, cause error) {
	if p.cause == nil {
		p.cause = cause
	}
}

func (p *pipe) SetWaker(w task.Waker) { p.waker = w }

// take empties the pipe.
func (p *pipe) take(b *task.Batch) []byte {
	d := p.sent
	p.sent = nil
	if p.limit > 0 && p.waker != nil {
		p.waker.Wake(b)
	}
	return d
}

// events is a handler that keeps what it was told.
type events struct {
	accepted []*Stream
	changes  int
	onAccept func(b *task.Batch, s *Stream)
}

func (e *events) Accept(b *task.Batch, s *Stream) {
	e.accepted = append(e.accepted, s)
	if e.onAccept != nil {
		e.onAccept(b, s)
	}
}

func (e *events) Changed(*task.Batch, *Conn) { e.changes++ }

// duo is a client and a server joined in memory.
type duo struct {
	sched        *task.Scheduler
	client       *Conn
	server       *Conn
	toServer     *pipe
	toClient     *pipe
	clientEvents *events
	serverEvents *events
}

func newDuo(t testing.TB, clientCfg, serverCfg Config) *duo {
	t.Helper()
	d := &duo{
		sched:    task.NewScheduler(task.Coroutines),
		toServer: new(pipe), toClient: new(pipe),
		clientEvents: new(events), serverEvents: new(events),
	}
	t.Cleanup(d.sched.Close)
	d.client = NewClient(d.toServer, clientCfg, d.clientEvents)
	d.server = NewServer(d.toClient, serverCfg, d.serverEvents)
	d.turn(func(b *task.Batch) {
		d.client.Start(b)
		d.server.Start(b)
	})
	d.move()
	return d
}

func (d *duo) turn(f func(b *task.Batch)) { d.sched.Turn(f) }

// move carries bytes until there are none.
func (d *duo) move() {
	for len(d.toServer.sent)+len(d.toClient.sent) > 0 {
		d.turn(func(b *task.Batch) { _ = d.server.Receive(b, d.toServer.take(b)) })
		d.turn(func(b *task.Batch) { _ = d.client.Receive(b, d.toClient.take(b)) })
	}
}

// open opens a tunnel and returns both ends of it.
func (d *duo) open(t testing.TB) (client, server *Stream) {
	t.Helper()
	d.turn(func(b *task.Batch) {
		var err error
		client, err = d.client.Open(b, &Head{Method: "CONNECT", Authority: "10.0.0.1:80"}, false, nil)
		if err != nil {
			t.Fatal(err)
		}
	})
	before := len(d.serverEvents.accepted)
	d.move()
	if len(d.serverEvents.accepted) != before+1 {
		t.Fatal("the server accepted nothing")
	}
	server = d.serverEvents.accepted[before]
	d.turn(func(b *task.Batch) {
		if err := server.WriteHead(b, &Head{Status: 200}, false); err != nil {
			t.Fatal(err)
		}
	})
	d.move()
	if h := client.Head(); h == nil || h.Status != 200 {
		t.Fatalf("head %v, want 200", h)
	}
	return client, server
}

// wakes counts.
type wakes int

func (w *wakes) Wake(*task.Batch) { *w++ }
