package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/node"
	"github.com/waypoint-mesh/waypoint/internal/h2"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// http1 sends the same request again and again.
type http1 struct {
	run     *Run
	tun     *tunnel
	s       *h2.Stream
	request []byte
}

func newHTTP1(r *Run, tun *tunnel) *http1 {
	return &http1{run: r, tun: tun, request: r.spec.head()}
}

// head returns the request's head: about 200 bytes, as a small service's client
// sends.
func (s Spec) head() []byte {
	method, length := "GET", ""
	if s.Upload > 0 {
		method, length = "POST", fmt.Sprintf("content-length: %d\r\n", s.Upload)
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nhost: reviews.default.svc.cluster.local:8080\r\nuser-agent: waypoint-load/1\r\naccept: */*\r\n"+
		"x-request-id: 6f1f2b9a-7c1e-4d0e-9a55-2b8f3a1c0d4e\r\n%s\r\n", method, s.Path, length)
}

func (c *http1) connect(t *task.Task) (err error) {
	c.s, err = c.tun.connect(t, c.run.spec.Target)
	return err
}

func (c *http1) close(t *task.Task, ended bool) { finish(t, c.s, ended) }

func (c *http1) exchange(t *task.Task) error {
	if err := task.WriteAll(t, c.s, c.request); err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	if err := c.upload(t); err != nil {
		return fmt.Errorf("sending a body: %w", err)
	}
	size, err := readResponseHead(t, c.s)
	if err != nil {
		return err
	}
	if err := c.download(t, size); err != nil {
		return fmt.Errorf("reading a body: %w", err)
	}
	return nil
}

func (c *http1) upload(t *task.Task) error {
	for left := c.run.spec.Upload; left > 0; {
		p := filler[:min(left, int64(len(filler)))]
		if err := task.WriteAll(t, c.s, p); err != nil {
			return err
		}
		left -= int64(len(p))
		c.tun.rec.sent.Add(int64(len(p)))
	}
	return nil
}

// download takes size bytes, no faster than ReadRate.
func (c *http1) download(t *task.Task, size int64) error {
	if f := c.run.spec.Answer; f != nil && size > 0 {
		if err := task.ReadMore(t, c.s, int(size)-1); err != nil {
			return err
		}
		f(c.s.Peek()[:size])
	}
	pace := throttle{rate: c.run.spec.ReadRate, start: c.run.now()}
	for size > 0 {
		if err := task.ReadMore(t, c.s, 0); err != nil {
			return err
		}
		n := min(size, int64(len(c.s.Peek())), pace.allowed(c.run.now()))
		if n <= 0 {
			if err := pace.wait(t); err != nil {
				return err
			}
			continue
		}
		c.s.Discard(t.Batch(), int(n))
		c.tun.rec.received.Add(n)
		pace.taken += n
		size -= n
	}
	return nil
}

// throttle is how a slow reader reads.
type throttle struct {
	rate  float64 // bytes a second; zero: any
	start time.Duration
	taken int64
}

// slice is how often a slow reader reads.
const slice = 20 * time.Millisecond

// allowed returns how many bytes may be taken now.
func (h *throttle) allowed(now time.Duration) int64 {
	if h.rate == 0 {
		return 1 << 62
	}
	return int64(h.rate*(now-h.start).Seconds()) - h.taken
}

// wait parks for a slice of time.
func (h *throttle) wait(t *task.Task) error {
	t.SetDeadline(time.Now().Add(slice))
	defer t.SetDeadline(time.Time{})
	for {
		if err := t.Park(); errors.Is(err, task.ErrDeadline) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

var (
	endOfHead = []byte("\r\n\r\n")
	statusOK  = []byte("HTTP/1.1 200 ")
)

// readResponseHead discards the head of a good response and returns the size of
// its body.
func readResponseHead(t *task.Task, s task.Stream) (int64, error) {
	n, err := headLength(t, s)
	if err != nil {
		return 0, err
	}
	size, err := parseResponseHead(s.Peek()[:n])
	s.Discard(t.Batch(), n)
	return size, err
}

// headLength waits for a whole head.
func headLength(t *task.Task, s task.Stream) (int, error) {
	for seen := 0; ; {
		if err := task.ReadMore(t, s, seen); err != nil {
			return 0, fmt.Errorf("waiting for a response: %w", err)
		}
		p := s.Peek()
		if i := bytes.Index(p, endOfHead); i >= 0 {
			return i + len(endOfHead), nil
		}
		seen = len(p)
	}
}

// parseResponseHead returns the Content-Length of a 200.
func parseResponseHead(head []byte) (int64, error) {
	if !bytes.HasPrefix(head, statusOK) {
		line, _, _ := bytes.Cut(head, endOfHead[:2])
		return 0, fmt.Errorf("response %q, want 200", line)
	}
	return contentLength(head)
}

func contentLength(head []byte) (int64, error) {
	n, err := strconv.ParseInt(string(node.Value(head, "content-length")), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("response without a content-length: %q", head)
	}
	return n, nil
}
