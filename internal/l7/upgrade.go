package l7

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// relay joins the two sides of an exchange that was upgraded, whose 101 was
// handed to downstream's writer, until both have ended.
func (e *exchange) relay() {
	e.t.SetDeadline(time.Time{}) // timeouts are for requests
	e.fw.upgraded.add(e.t)
	defer e.fw.upgraded.remove(e.t)
	err := e.flushAll()
	if err == nil {
		r := task.Relay{Down: e.down.raw(), Up: e.up.raw()}
		r.Check = func() error {
			e.flow.Received, e.flow.Sent = r.Received, r.Sent
			e.progress()
			return e.stillAllowed()
		}
		err = r.Run(e.t)
		e.flow.Received, e.flow.Sent = r.Received, r.Sent
	}
	if err != nil {
		e.recordBreak(err)
		e.down.abort(e.t.Batch())
	}
	e.finishAttempt(false)
}

// recordBreak says how a relay ended before its time.
func (e *exchange) recordBreak(err error) {
	var broken *task.RelayError
	switch {
	case errors.Is(err, errDenied):
		e.flow.Details = "rbac_access_denied_late"
	case errors.Is(err, errGone):
		e.flow.Details = destinationGone.Details
	case errors.As(err, &broken) && broken.Upstream:
		e.flow.Flags |= flow.UpstreamClosed
	default:
		e.flow.Flags |= flow.DownstreamClosed
	}
}

// Why an upgraded connection is cut by an edit.
var (
	errDenied = errors.New("policy does not allow it any more")
	errGone   = errors.New("the destination is not served any more")
)

// stillAllowed asks policy about the request once more when the configuration has
// changed: an upgraded connection has no next request with which it would be.
func (e *exchange) stillAllowed() error {
	snap := e.fw.opts.Store.Load()
	if snap == e.snap {
		return nil
	}
	e.snap = snap
	d, ok := current(snap, &e.in.Dest)
	if !ok {
		return errGone
	}
	if verdict := decide.Allow(&d, &e.asked); !verdict.Allowed {
		e.flow.Policy = verdict.Policy
		return errDenied
	}
	return nil
}

// upgrades are the tasks of the exchanges whose connections were upgraded.
type upgrades struct {
	mu    sync.Mutex
	tasks map[*task.Task]struct{} // guarded by mu
}

func (u *upgrades) add(t *task.Task) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tasks == nil {
		u.tasks = make(map[*task.Task]struct{})
	}
	u.tasks[t] = struct{}{}
}

func (u *upgrades) remove(t *task.Task) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tasks, t)
}

func (u *upgrades) open() []*task.Task {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.tasks))
}

// Recheck has every upgraded connection look whether policy still allows it.
func (fw *Forwarder) Recheck(b *task.Batch) {
	for _, t := range fw.upgraded.open() {
		t.Wake(b)
	}
}

// flushAll waits until downstream's writer has handed on all it holds.
func (e *exchange) flushAll() error {
	for {
		done, err := e.down.flush(e.t.Batch())
		if done || err != nil {
			return err
		}
		if err := e.t.Park(); err != nil {
			return err
		}
	}
}

// websocketKey makes up the nonce of RFC 6455 4.1 for a client that spoke HTTP/2.
// It is no secret: it tells caches from servers.
func websocketKey() string {
	var nonce [16]byte
	binary.NativeEndian.PutUint64(nonce[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(nonce[8:], rand.Uint64())
	return base64.StdEncoding.EncodeToString(nonce[:])
}

// websocketAccept answers a Sec-WebSocket-Key (RFC 6455 4.2.2) for a client whose
// endpoint speaks HTTP/2, where there is no such handshake (RFC 8441 5).
func websocketAccept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 asks for it; nothing depends on its strength
	return base64.StdEncoding.EncodeToString(sum[:])
}
