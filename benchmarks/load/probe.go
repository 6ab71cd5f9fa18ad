package load

import (
	"context"
	"fmt"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/node"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Reply is what a probe brought back.
type Reply struct {
	Connect int    // status of the CONNECT
	Head    string // of an HTTP/1.1 response
	Body    string
}

// probeTimeout bounds one probe.
const probeTimeout = 10 * time.Second

// Probe sends p in a stream of a new tunnel to authority, and returns the HTTP/1.1
// response, or with raw > 0 as many bytes. A CONNECT that is refused is a reply
// like any other.
func (c *Client) Probe(ctx context.Context, authority string, p []byte, raw int) (reply Reply, err error) {
	t, err := c.tunnel(ctx)
	if err != nil {
		return reply, err
	}
	defer c.close(t)
	ended := make(chan struct{})
	c.sched.Turn(func(b *task.Batch) {
		c.sched.Start(b, task.RoutineFunc(func(tk *task.Task) {
			defer close(ended)
			tk.SetDeadline(time.Now().Add(probeTimeout))
			reply, err = t.probe(tk, authority, p, raw)
		}))
	})
	<-ended
	return reply, err
}

func (t *tunnel) probe(tk *task.Task, authority string, p []byte, raw int) (reply Reply, err error) {
	s, err := t.conn.Open(tk.Batch(), &h2.Head{Method: "CONNECT", Authority: authority, Fields: connectFields}, false, tk)
	if err != nil {
		return reply, err
	}
	defer func() { s.Done(tk.Batch()) }()
	head, err := waitHead(tk, s)
	if err != nil {
		return reply, err
	}
	reply.Connect = head.Status
	s.NextHead()
	if reply.Connect != 200 {
		return reply, nil
	}
	if err := task.WriteAll(tk, s, p); err != nil {
		return reply, fmt.Errorf("sending: %w", err)
	}
	if raw > 0 {
		reply.Body, err = take(tk, s, raw)
		return reply, err
	}
	return reply, reply.read(tk, s)
}

// read takes a response that says its length.
func (r *Reply) read(tk *task.Task, s task.Stream) error {
	n, err := headLength(tk, s)
	if err != nil {
		return err
	}
	if r.Head, err = take(tk, s, n); err != nil {
		return err
	}
	size, err := contentLength([]byte(r.Head))
	if err != nil {
		return err
	}
	r.Body, err = take(tk, s, int(size))
	return err
}

// take reads n bytes.
func take(tk *task.Task, s task.Stream, n int) (string, error) {
	if n == 0 {
		return "", nil
	}
	if err := task.ReadMore(tk, s, n-1); err != nil {
		return "", fmt.Errorf("after %d of %d bytes: %w", len(s.Peek()), n, err)
	}
	out := string(s.Peek()[:n])
	s.Discard(tk.Batch(), n)
	return out, nil
}

// Get returns the value of a field of the response.
func (r *Reply) Get(name string) string { return string(node.Value([]byte(r.Head), name)) }
