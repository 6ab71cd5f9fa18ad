package h2

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// socket is a transport over a net.Conn for tests: a goroutine reads, another
// writes, and at most limit bytes wait in between.
type socket struct {
	conn  net.Conn
	sched *task.Scheduler

	mu     sync.Mutex
	more   sync.Cond
	out    []byte
	shut   bool
	err    error
	waker  task.Waker
	hungry bool // a Write took less than all
}

const socketLimit = 64 << 10

func newSocket(conn net.Conn, sched *task.Scheduler) *socket {
	s := &socket{conn: conn, sched: sched}
	s.more.L = &s.mu
	return s
}

func (s *socket) Write(_ *task.Batch, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n := min(len(p), socketLimit-len(s.out))
	s.out = append(s.out, p[:n]...)
	s.hungry = n < len(p)
	s.more.Signal()
	return n, nil
}

func (s *socket) CloseWrite(*task.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	s.more.Signal()
	return nil
}

func (s *socket) Abort(_ *task.Batch, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = cause
	s.more.Signal()
	s.conn.Close()
}

func (s *socket) SetWaker(w task.Waker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waker = w
}

// serve runs the connection until both directions have ended.
func (s *socket) serve(c *Conn) {
	var wg sync.WaitGroup
	wg.Go(s.writeLoop)
	buf := make([]byte, 32<<10)
	b := s.sched.NewBatch()
	for {
		n, err := s.conn.Read(buf)
		_ = c.Receive(b, buf[:n])
		if err != nil {
			c.Closed(b, err)
			b.Run()
			break
		}
		b.Run()
	}
	wg.Wait()
	s.conn.Close()
}

func (s *socket) writeLoop() {
	var p []byte
	for {
		s.mu.Lock()
		for len(s.out) == 0 && !s.shut && s.err == nil {
			s.more.Wait()
		}
		p, s.out = s.out, p[:0]
		wake := s.hungry
		s.hungry = false
		w := s.waker
		end := s.err != nil || len(p) == 0
		s.mu.Unlock()
		if _, err := s.conn.Write(p); err != nil || end {
			if tcp, ok := s.conn.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			return
		}
		if wake && w != nil {
			s.sched.Turn(w.Wake)
		}
	}
}

// listen serves connections of this package on a loopback port and returns its
// address. Each request runs handle as a task.
func listen(t testing.TB, sched *task.Scheduler, cfg Config, handle func(t *task.Task, s *Stream)) string {
	t.Helper()
	cfg.Scheduler = sched
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var live []*Conn
	h := &events2{sched: sched, handle: handle}
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s := newSocket(conn, sched)
			c := NewServer(s, cfg, h)
			mu.Lock()
			live = append(live, c)
			mu.Unlock()
			wg.Go(func() {
				sched.Turn(c.Start)
				s.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range live {
			sched.Turn(func(b *task.Batch) { c.Closed(b, errors.New("test over")) })
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

// events2 starts a task for every request.
type events2 struct {
	sched  *task.Scheduler
	handle func(t *task.Task, s *Stream)
}

func (h *events2) Accept(b *task.Batch, s *Stream) {
	h.sched.Start(b, task.RoutineFunc(func(t *task.Task) {
		s.SetWaker(t)
		h.handle(t, s)
		s.Done(t.Batch())
	}))
}

func (h *events2) Changed(*task.Batch, *Conn) {}

// dial connects a client of this package to addr.
func dial(t testing.TB, sched *task.Scheduler, cfg Config, addr string) *Conn {
	t.Helper()
	cfg.Scheduler = sched
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := newSocket(conn, sched)
	c := NewClient(s, cfg, &events2{})
	sched.Turn(c.Start)
	var wg sync.WaitGroup
	wg.Go(func() { s.serve(c) })
	t.Cleanup(func() {
		sched.Turn(func(b *task.Batch) { c.Closed(b, errors.New("test over")) })
		wg.Wait()
	})
	return c
}

// readAll reads s to its end.
func readAll(t *task.Task, s *Stream) ([]byte, error) {
	var all []byte
	for {
		err := task.ReadMore(t, s, 0)
		p := s.Peek()
		all = append(all, p...)
		s.Discard(t.Batch(), len(p))
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return all, err
		}
	}
}

// readHead parks until the next head is there.
func readHead(t *task.Task, s *Stream) (*Head, error) {
	for {
		if h := s.Head(); h != nil {
			return h, nil
		}
		if err := s.ReadErr(); err != nil {
			return nil, err
		}
		if err := t.Park(); err != nil {
			return nil, err
		}
	}
}

func listenLocal(t testing.TB) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
