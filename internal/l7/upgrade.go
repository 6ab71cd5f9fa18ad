package l7

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// relay joins the two sides of an exchange that was upgraded, whose 101 was
// handed to downstream's writer, until both have ended.
func (e *exchange) relay() {
	e.t.SetDeadline(time.Time{}) // timeouts are for requests
	err := e.flushAll()
	if err == nil {
		r := task.Relay{Down: e.down.raw(), Up: e.up.raw()}
		r.Check = func() error {
			e.flow.Received, e.flow.Sent = r.Received, r.Sent
			e.progress()
			return nil
		}
		err = r.Run(e.t)
		e.flow.Received, e.flow.Sent = r.Received, r.Sent
	}
	var broken *task.RelayError
	if err != nil {
		e.flow.Flags |= flow.DownstreamClosed
		if errors.As(err, &broken) && broken.Upstream {
			e.flow.Flags = e.flow.Flags&^flow.DownstreamClosed | flow.UpstreamClosed
		}
		e.down.abort(e.t.Batch())
	}
	e.finishAttempt(false)
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
