package node

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// calls serves the HTTP/2 connection inside a tunnel.
type calls struct {
	sched  *task.Scheduler
	tunnel *h2.Stream
}

func (h *calls) Accept(b *task.Batch, s *h2.Stream) { h.sched.Start(b, &call{s}) }

// Changed ends the tunnel with the connection in it.
func (h *calls) Changed(b *task.Batch, c *h2.Conn) {
	if c.Err() != nil {
		h.tunnel.Done(b)
	}
}

type call struct{ s *h2.Stream }

var (
	plainFields = []h2.Field{{Name: "content-type", Value: "text/plain"}}
	grpcFields  = []h2.Field{{Name: "content-type", Value: "application/grpc"}}
	grpcOK      = []h2.Field{{Name: "grpc-status", Value: "0"}}
	message     = Message(DefaultSize)
)

// messageHead is the size of what precedes a gRPC message: a flag and a length.
const messageHead = 5

// Message returns a gRPC message of n bytes with what precedes it.
func Message(n int) []byte {
	m := make([]byte, messageHead, messageHead+n)
	binary.BigEndian.PutUint32(m[1:], uint32(n))
	return append(m, filler[:n]...)
}

// Run answers one call. A client that has gone is no error here.
func (c *call) Run(t *task.Task) {
	c.s.SetWaker(t)
	defer func() { c.s.Done(t.Batch()) }()
	path, grpc := c.s.Head().Path, strings.HasPrefix(c.s.Head().Get("content-type"), "application/grpc")
	c.s.NextHead()
	switch {
	case !grpc:
		_ = c.plain(t, path)
	case strings.HasSuffix(path, "/stream"):
		_ = c.stream(t)
	default:
		_ = c.unary(t)
	}
}

func (c *call) plain(t *task.Task, path string) error {
	n, ok := sizeOf(path)
	if !ok {
		n = DefaultSize
	}
	if err := c.s.WriteHead(t.Batch(), &h2.Head{Status: 200, Fields: plainFields}, false); err != nil {
		return err
	}
	if err := fill(t, c.s, n); err != nil {
		return err
	}
	return c.s.CloseWrite(t.Batch())
}

// unary answers when the request is complete.
func (c *call) unary(t *task.Task) error {
	for task.ReadMore(t, c.s, 0) == nil {
		c.s.Discard(t.Batch(), len(c.s.Peek()))
	}
	if err := c.s.WriteHead(t.Batch(), &h2.Head{Status: 200, Fields: grpcFields}, false); err != nil {
		return err
	}
	if err := task.WriteAll(t, c.s, message); err != nil {
		return err
	}
	return c.s.WriteTrailers(t.Batch(), grpcOK)
}

// stream answers each message.
func (c *call) stream(t *task.Task) error {
	if err := c.s.WriteHead(t.Batch(), &h2.Head{Status: 200, Fields: grpcFields}, false); err != nil {
		return err
	}
	for {
		if task.ReadMore(t, c.s, messageHead-1) != nil {
			return c.s.WriteTrailers(t.Batch(), grpcOK)
		}
		n := binary.BigEndian.Uint32(c.s.Peek()[1:messageHead])
		if err := discard(t, c.s, messageHead+int64(n)); err != nil {
			return err
		}
		if err := task.WriteAll(t, c.s, message); err != nil {
			return err
		}
	}
}

// sizeOf reads /size/N.
func sizeOf(path string) (int64, bool) {
	digits, ok := strings.CutPrefix(path, "/size/")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n >= 0
}
