package h2

import (
	"errors"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// lingerTime is how long a connection that we have ended for an error waits for
// the peer to end it too. Cutting it at once would lose the GOAWAY: a socket that
// is closed with bytes unread tells its peer to forget what it has received.
const lingerTime = 2 * time.Second

// keepalive finds peers that have vanished. Whatever arrives is life, so a busy
// connection is never pinged, and no clock is read when bytes arrive.
type keepalive struct {
	timer  *task.Timer // nil while there is nothing to time
	alive  bool        // something arrived since the timer was set
	pinged bool        // the timer runs for the answer
	linger bool        // the timer runs for the end
}

type keepaliveWaker Conn

// Wake is called when the timer fires.
func (w *keepaliveWaker) Wake(b *task.Batch) {
	c := (*Conn)(w)
	c.mu.Lock()
	c.tick()
	c.release(b)
}

func (c *Conn) startKeepalive() {
	if c.cfg.PingInterval > 0 {
		c.setTimer(c.cfg.PingInterval)
	}
}

func (c *Conn) setTimer(d time.Duration) {
	switch k := &c.keepalive; {
	case k.timer != nil:
		k.timer.Reset(d)
	case c.cfg.Scheduler != nil:
		k.timer = c.cfg.Scheduler.After(d, (*keepaliveWaker)(c))
	}
}

func (c *Conn) stopKeepalive() {
	if c.keepalive.timer != nil {
		c.keepalive.timer.Stop()
	}
}

// tick asks for a sign of life or acts on its absence.
func (c *Conn) tick() {
	k := &c.keepalive
	switch {
	case c.dead:
		return
	case k.linger:
		c.cut(c.err)
		return
	case k.alive:
		k.pinged = false
		c.setTimer(c.cfg.PingInterval)
	case k.pinged:
		c.cut(errors.New("the peer does not answer: nothing arrived in " +
			(c.cfg.PingInterval + c.cfg.PingTimeout).String() + ", not even an answer to PING"))
		return
	default:
		k.pinged = true
		if !c.closing {
			o := c.out.room(headerLen + 8)
			o.b = appendPing(o.b, false, [8]byte{'a', 'l', 'i', 'v', 'e', '?'})
		}
		c.setTimer(c.cfg.PingTimeout)
	}
	k.alive = false
}

// linger bounds the time to the end of the transport.
func (c *Conn) linger(d time.Duration) {
	if !c.keepalive.linger {
		c.keepalive.linger = true
		c.setTimer(d)
	}
}
