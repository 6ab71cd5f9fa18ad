package load

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/waypoint-mesh/waypoint/benchmarks/node"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// shared opens an HTTP/2 connection in a tunnel and starts the workers whose
// calls share it.
func (r *Run) shared(t *task.Task, tun *tunnel) {
	defer r.workers.Done()
	s, err := tun.connect(t, r.spec.Target)
	r.opened(err)
	if err != nil {
		return
	}
	cfg := windows
	cfg.Scheduler, cfg.Depth = r.client.sched, 1
	conn := h2.NewClient(s, cfg, quiet{})
	h2.Ride(t.Batch(), conn, s)
	message := node.Message(int(max(r.spec.Upload, defaultMessage)))
	for range r.spec.Calls {
		r.workers.Add(1)
		r.client.sched.Start(t.Batch(), &caller{worker{run: r, tun: tun, ex: r.call(conn, message)}})
	}
}

// defaultMessage is the size of a request's message.
const defaultMessage = 100

func (r *Run) call(conn *h2.Conn, message []byte) exchanger {
	c := call{run: r, conn: conn, message: message}
	if r.spec.Protocol == GRPCStream {
		return &openCall{c}
	}
	return &c
}

// caller is a worker on a connection that is open already.
type caller struct{ worker }

// Run works until the run stops.
func (c *caller) Run(t *task.Task) {
	defer c.run.workers.Done()
	c.task = t
	c.work(t)
	if c.connected {
		c.ex.close(t, false)
	}
}

// call does unary calls.
type call struct {
	run     *Run
	conn    *h2.Conn
	message []byte
	s       *h2.Stream
}

func grpcHead(path string) *h2.Head {
	return &h2.Head{
		Method: "POST", Scheme: "http", Authority: "reviews.default.svc.cluster.local:8080", Path: path,
		Fields: []h2.Field{{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}, {Name: "user-agent", Value: "waypoint-load/1"}},
	}
}

var (
	unaryHead  = grpcHead("/demo.Reviews/Get")
	streamHead = grpcHead("/demo.Reviews/stream")
)

func (c *call) connect(*task.Task) error { return nil }

func (c *call) close(*task.Task, bool) {}

func (c *call) exchange(t *task.Task) error {
	s, err := c.conn.Open(t.Batch(), unaryHead, false, t)
	if err != nil {
		return err
	}
	defer func() { s.Done(t.Batch()) }()
	if err := task.WriteAll(t, s, c.message); err != nil {
		return err
	}
	if err := s.CloseWrite(t.Batch()); err != nil {
		return err
	}
	if err := goodHead(t, s); err != nil {
		return err
	}
	size := 0
	for task.ReadMore(t, s, 0) == nil {
		n := len(s.Peek())
		s.Discard(t.Batch(), n)
		size += n
	}
	return goodEnd(s, size)
}

func goodHead(t *task.Task, s *h2.Stream) error {
	head, err := waitHead(t, s)
	if err != nil {
		return err
	}
	if head.Status != 200 {
		return fmt.Errorf("response %d, want 200", head.Status)
	}
	if status := head.Get("grpc-status"); status != "" {
		return fmt.Errorf("grpc-status %s without a message: %s", status, head.Get("grpc-message"))
	}
	s.NextHead()
	return nil
}

// answerSize is that of the node proxy's message, with what precedes it.
var answerSize = len(node.Message(node.DefaultSize))

func goodEnd(s *h2.Stream, size int) error {
	trailers := h2.Head{Fields: s.Trailers()}
	if status := trailers.Get("grpc-status"); status != "0" || size != answerSize {
		return fmt.Errorf("call ended with grpc-status %q after %d bytes, want 0 after %d: %w", status, size, answerSize, s.ReadErr())
	}
	return nil
}

// openCall sends messages in a call that stays open.
type openCall struct{ call }

func (c *openCall) connect(t *task.Task) error {
	s, err := c.conn.Open(t.Batch(), streamHead, false, t)
	if err != nil {
		return err
	}
	if err := goodHead(t, s); err != nil {
		s.Done(t.Batch())
		return err
	}
	c.s = s
	return nil
}

func (c *openCall) close(t *task.Task, _ bool) { c.s.Done(t.Batch()) }

func (c *openCall) exchange(t *task.Task) error {
	if err := task.WriteAll(t, c.s, c.message); err != nil {
		return err
	}
	if err := task.ReadMore(t, c.s, answerSize-1); err != nil {
		return err
	}
	if n := binary.BigEndian.Uint32(c.s.Peek()[1:]); n != node.DefaultSize {
		return errors.New("an answer of the wrong size: messages were lost or cut")
	}
	c.s.Discard(t.Batch(), answerSize)
	return nil
}
