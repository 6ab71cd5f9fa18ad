package l7

import (
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

const (
	// maxMirrorBody bounds the body of a request that is mirrored. With more, it
	// is not: a copy that was cut would tell nothing.
	maxMirrorBody = 64 << 10
	// mirrorTimeout ends mirrored requests that nobody waits for.
	mirrorTimeout = 15 * time.Second
)

// mirrors are the copies that are to be made of a request, once all of it is
// known.
type mirrors struct {
	ports []*mesh.Port
	body  []byte
	lost  bool // there was too much body
}

func (m *mirrors) reset() {
	clear(m.ports)
	*m = mirrors{ports: m.ports[:0]}
}

// addMirror notes a mirror, for its fraction of the requests. A backend that is
// not there costs the copy, not the request.
func (e *exchange) addMirror(f *route.Mirror) {
	if e.req.upgrade != "" || rand.N(max(f.Denominator, 1)) >= f.Numerator {
		return
	}
	if port, reply := decide.BackendPort(e.snap, &f.Backend); reply == nil {
		e.mirrors.ports = append(e.mirrors.ports, port)
	}
}

// tee keeps a copy of body bytes for the mirrors.
func (m *mirrors) tee(p []byte) {
	switch {
	case len(m.ports) == 0 || m.lost:
	case len(m.body)+len(p) > maxMirrorBody:
		m.body, m.lost = nil, true
	default:
		m.body = append(m.body, p...)
	}
}

// startMirrors sends the copies. The request is complete; their answers are read
// and dropped.
func (e *exchange) startMirrors() {
	m := &e.mirrors
	for _, port := range m.ports {
		if m.lost || e.fw.mirrors.Add(1) > int64(e.fw.limits.MaxMirrors) {
			e.fw.mirrors.Add(-1)
			continue
		}
		copied := newExchange(e.fw, nil, e.in)
		copied.down = &mirrorDown{body: m.body}
		copied.unobserved = true
		copied.server = e.server // for ports that take the client's version
		copied.req.cloneFrom(&e.req)
		copied.snap, copied.verdict = e.snap, decide.Verdict{Port: port}
		e.fw.sched.Start(e.t.Batch(), (*mirrorRun)(copied))
	}
	m.reset() // the body belongs to the copies now
}

// cloneFrom makes r a copy that shares no memory with from.
func (r *request) cloneFrom(from *request) {
	r.CopyFrom(&from.Header)
	r.CloneStrings()
	r.method, r.scheme, r.authority, r.path = strings.Clone(from.method), "", strings.Clone(from.authority), strings.Clone(from.path)
	r.length, r.hasBody, r.trailers = from.length, from.hasBody, from.trailers
}

// mirrorRun is an exchange that is a copy.
type mirrorRun exchange

// Run sends the copy.
func (m *mirrorRun) Run(t *task.Task) {
	e := (*exchange)(m)
	e.t = t
	fw := e.fw
	defer fw.mirrors.Add(-1)
	defer e.free()
	defer func() {
		if e.up != nil { // only if a panic passes through here
			e.finishAttempt(false)
		}
	}()

	e.deadline = time.Now().Add(mirrorTimeout)
	e.forward()
}

// mirrorDown stands where the client would: it has the whole request, and drops
// the response. It gives the exchange nothing to wait for.
type mirrorDown struct{ body []byte }

func (d *mirrorDown) next(*task.Batch) ([]byte, error) {
	if len(d.body) == 0 {
		return nil, io.EOF
	}
	return d.body, nil
}

func (d *mirrorDown) consume(_ *task.Batch, n int) { d.body = d.body[n:] }

func (d *mirrorDown) trailers() []h1.Field { return nil }

func (d *mirrorDown) send(_ *task.Batch, p []byte) (int, error) { return len(p), nil }

func (d *mirrorDown) finish(*task.Batch, []h1.Field) (bool, error) { return true, nil }

func (d *mirrorDown) flush(*task.Batch) (bool, error) { return true, nil }

func (d *mirrorDown) interim(*task.Batch, *response) error { return nil }

func (d *mirrorDown) respond(*task.Batch, *request, *response) error { return nil }

func (d *mirrorDown) broken() error { return nil }

func (d *mirrorDown) abort(*task.Batch) {}

func (d *mirrorDown) raw() task.Stream { return nil } // a copy never asks for an upgrade
