package hbone

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// pool is the tunnels to one destination, and the streams that wait for one.
//
// A waiter keeps its place in the queue until it has a tunnel. Whoever makes room
// wakes the first; whoever is served wakes the next, so that none is woken in
// vain. One dial runs at a time, as long as somebody waits.
type pool struct {
	d   *Dialer
	dst Destination

	mu      sync.Mutex
	tunnels []*tunnel // guarded by mu; those that take new streams
	waiting []*waiter // guarded by mu; first come first
	dialing bool      // guarded by mu
	retired bool      // guarded by mu; the dialer has forgotten the pool
	limit   int       // guarded by mu; of streams a tunnel, as the peer last said
}

// waiter is a stream to be that has no tunnel yet.
type waiter struct {
	w      task.Waker
	queued bool  // guarded by the pool's mu
	err    error // guarded by the pool's mu; of the dial that it waited for
}

var (
	errRetired = errors.New("the destination was forgotten")
	errBusy    = errors.New("too many wait")
)

// acquire takes a place on a tunnel for w. Without one it queues w, sees to a
// dial and returns nil: try again after the next wake.
func (p *pool) acquire(b *task.Batch, w *waiter) (*tunnel, error) {
	p.mu.Lock()
	t, err := p.acquireLocked(w)
	mayDial := !p.dialing && len(p.tunnels) < p.d.config.MaxTunnels
	dial := t == nil && err == nil && mayDial
	p.dialing = p.dialing || dial
	var next task.Waker
	if t != nil && (mayDial || p.bestLocked() != nil) {
		next = p.firstLocked()
	}
	p.mu.Unlock()
	if next != nil {
		next.Wake(b)
	}
	if dial {
		go p.dial()
	}
	return t, err
}

func (p *pool) acquireLocked(w *waiter) (*tunnel, error) {
	if w.err != nil {
		return nil, w.err
	}
	if p.retired {
		return nil, errRetired
	}
	if t := p.bestLocked(); t != nil {
		t.streams++
		p.dequeueLocked(w)
		return t, nil
	}
	if !w.queued {
		if len(p.waiting) >= p.d.config.MaxWaiting {
			return nil, errBusy
		}
		w.queued = true
		p.waiting = append(p.waiting, w)
	}
	return nil, nil
}

// bestLocked returns the tunnel with the fewest streams that has a place.
func (p *pool) bestLocked() *tunnel {
	var best *tunnel
	for _, t := range p.tunnels {
		if t.streams < t.limit && (best == nil || t.streams < best.streams) {
			best = t
		}
	}
	return best
}

// firstLocked is whom to wake, once the lock is let go of: nil, if nobody waits. The
// waiter itself may be used again by then.
func (p *pool) firstLocked() task.Waker {
	if len(p.waiting) == 0 {
		return nil
	}
	return p.waiting[0].w
}

func (p *pool) dequeueLocked(w *waiter) {
	if !w.queued {
		return
	}
	w.queued = false
	i := slices.Index(p.waiting, w)
	p.waiting = slices.Delete(p.waiting, i, i+1)
}

// leave takes w off the queue: it has given up. It returns the error of the dial
// if that came at the same moment, and whether one is still under way.
func (p *pool) leave(w *waiter) (dialing bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dequeueLocked(w)
	return p.dialing, w.err
}

// release gives a place on t back.
func (p *pool) release(b *task.Batch, t *tunnel) {
	p.mu.Lock()
	t.streams--
	if t.streams == 0 {
		t.idleSince = time.Now()
	}
	w := p.firstLocked()
	p.mu.Unlock()
	if w != nil {
		w.Wake(b)
	}
}

// setLimit is told how many streams t may have.
func (p *pool) setLimit(b *task.Batch, t *tunnel, limit int) {
	p.mu.Lock()
	p.limit = min(limit, maxTunnelStreams)
	t.limit = p.limit
	w := p.firstLocked()
	p.mu.Unlock()
	if w != nil {
		w.Wake(b)
	}
}

// full is told that t takes no more than it has.
func (p *pool) full(t *tunnel) {
	p.mu.Lock()
	t.limit = min(t.limit, t.streams-1) // the caller's own place was one too many
	p.mu.Unlock()
}

// drop gives t no more streams.
func (p *pool) drop(b *task.Batch, t *tunnel) {
	p.mu.Lock()
	if i := slices.Index(p.tunnels, t); i >= 0 {
		p.tunnels = slices.Delete(p.tunnels, i, i+1)
	}
	w := p.firstLocked()
	p.mu.Unlock()
	if w != nil {
		w.Wake(b) // it sees to another dial
	}
}

// dial makes a tunnel and is its reader from then on.
func (p *pool) dial() {
	if !p.d.enter() {
		p.d.config.Scheduler.Turn(p.retire)
		return
	}
	defer p.d.live.Done()
	p.d.stats.dials.Add(1)
	t, err := connect(p)
	if err != nil {
		p.d.stats.failed.Add(1)
		p.d.config.Scheduler.Turn(func(b *task.Batch) { p.failed(b, dialError(p.dst.Addr, err)) })
		return
	}
	t.serve()
}

// failed tells all who wait why there is no tunnel.
func (p *pool) failed(b *task.Batch, err error) {
	p.mu.Lock()
	p.dialing = false
	waiting := p.takeWaitingLocked(err)
	p.mu.Unlock()
	for _, w := range waiting {
		w.Wake(b)
	}
}

// takeWaitingLocked empties the queue for err, and returns whom to wake.
func (p *pool) takeWaitingLocked(err error) []task.Waker {
	wakers := make([]task.Waker, len(p.waiting))
	for i, w := range p.waiting {
		wakers[i] = w.w
		w.queued, w.err = false, err
	}
	p.waiting = nil
	return wakers
}

// add takes a tunnel that a dial made, and reports whether it is wanted.
func (p *pool) add(b *task.Batch, t *tunnel) bool {
	p.mu.Lock()
	p.dialing = false
	t.idleSince, t.limit = time.Now(), p.limit
	wanted := !p.retired
	if wanted {
		p.tunnels = append(p.tunnels, t)
	}
	w := p.firstLocked()
	p.mu.Unlock()
	if w != nil {
		w.Wake(b)
	}
	return wanted
}

// takeIdle takes the tunnels without a stream since before, and reports whether
// the pool is of no more use.
func (p *pool) takeIdle(before time.Time) (idle []*tunnel, empty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tunnels = slices.DeleteFunc(p.tunnels, func(t *tunnel) bool {
		drop := t.streams == 0 && t.idleSince.Before(before)
		if drop {
			idle = append(idle, t)
		}
		return drop
	})
	p.retired = p.retired || len(p.tunnels) == 0 && len(p.waiting) == 0 && !p.dialing
	return idle, p.retired
}

// retire ends the pool: tunnels end with their last stream, who waits starts
// again with another pool.
func (p *pool) retire(b *task.Batch) {
	p.mu.Lock()
	p.retired, p.dialing = true, false
	tunnels, waiting := p.tunnels, p.takeWaitingLocked(errRetired)
	p.tunnels = nil
	p.mu.Unlock()
	for _, t := range tunnels {
		t.h2.Drain(b)
	}
	for _, w := range waiting {
		w.Wake(b)
	}
}
