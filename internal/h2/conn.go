package h2

import (
	"math"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Conn is one HTTP/2 connection. All methods may be called from any turn, except
// Receive, Feed and Closed: those belong to the transport's reader, one call at a
// time.
//
// mu guards all fields but the first group. It is never held while the transport,
// a waker or the handler is called.
type Conn struct {
	t      Transport
	h      Handler
	cfg    Config
	client bool
	start  time.Time

	mu      sync.Mutex
	streams map[uint32]*Stream // open ones
	ended   ended
	working int    // streams accepted and not both ended and let go of
	nextID  uint32 // of the next stream that we open
	lastID  uint32 // largest that the peer has opened

	// What to do when mu is let go of, in release.
	woken     []*Stream // streams to wake or accept, from wokenAt on
	wokenAt   int
	changed   bool  // tell the handler
	cutFor    error // abort the transport
	lookAgain bool  // flush although there may be nothing: see wakeWriters

	// Receiving.
	preface   int    // bytes of the client preface still due
	partial   *chunk // a frame that a read has cut
	data      dataFrame
	block     block
	decoder   *hpack.Decoder
	settled   bool  // the peer's first SETTINGS came
	connect   bool  // they allow extended CONNECT
	acked     bool  // the peer applies our SETTINGS
	received  int32 // connection credit not yet returned
	window    int32 // what the peer may still send, all streams together
	control   bucket
	updates   int32 // WINDOW_UPDATEs that the peer owes us nothing for: see chargeUpdate
	resets    bucket
	roundTrip time.Duration // measured once, by our SETTINGS
	sentAt    time.Duration // of our SETTINGS

	// Sending.
	out         output
	encoder     encoder
	flushing    bool // a turn is in Flush
	flushAgain  bool // another came by meanwhile
	stuck       bool // the transport took less than all; it will wake us
	sendWindow  int32
	peerWindow  int32     // send window of a new stream
	peerLimit   uint32    // streams that the peer lets us open
	peerHeaders uint32    // bytes of a header section that it takes, as it says
	blocked     []*Stream // writers that wait for their turn, oldest first
	turns       int       // streams that were given theirs and have not written yet

	// Ending.
	err       error      // why the connection ends or ended
	goAway    *ConnError // the peer's
	draining  bool       // no new streams
	finalID   uint32
	final     bool // GOAWAY with finalID was sent: streams above it are not ours
	closing   bool // nothing is read and no frame is added any more
	halfShut  bool // our side of the transport was ended
	dead      bool // the transport is gone
	keepalive keepalive
}

// NewServer returns the server side of a connection over t.
func NewServer(t Transport, cfg Config, h Handler) *Conn {
	c := newConn(t, cfg, h)
	c.preface = len(preface)
	c.nextID = 2
	return c
}

// NewClient returns the client side of a connection over t.
func NewClient(t Transport, cfg Config, h Handler) *Conn {
	c := newConn(t, cfg, h)
	c.client = true
	c.nextID = 1
	return c
}

func newConn(t Transport, cfg Config, h Handler) *Conn {
	cfg = cfg.withDefaults()
	c := &Conn{
		t: t, h: h, cfg: cfg, start: time.Now(),
		streams: make(map[uint32]*Stream),
		window:  defaultWindow, sendWindow: defaultWindow, peerWindow: defaultWindow,
		peerLimit:   100, // as everybody assumes until told otherwise
		peerHeaders: 1<<32 - 1,
		control:     newBucket(controlBurst, controlPerSecond),
		resets:      newBucket(resetBurst+2*int32(cfg.MaxConcurrentStreams), resetPerSecond),
		encoder:     newEncoder(),
	}
	c.decoder = hpack.NewDecoder(4096, c.emit)
	c.decoder.SetMaxStringLength(2 * cfg.MaxHeaderBytes)
	return c
}

// Start sends what a connection begins with, and sets the transport's waker. It
// is called once, before anything else.
func (c *Conn) Start(b *task.Batch) {
	c.t.SetWaker((*transportWaker)(c))
	c.begin(b)
}

// begin queues preface and settings, and starts keepalive.
func (c *Conn) begin(b *task.Batch) {
	c.mu.Lock()
	settings := []setting{
		{settingInitialWindowSize, uint32(c.cfg.StreamWindow)},
		{settingMaxHeaderListSize, uint32(c.cfg.MaxHeaderBytes)},
	}
	k := c.out.room(256)
	if c.client {
		k.b = append(k.b, preface...)
		settings = append(settings, setting{settingEnablePush, 0})
	} else {
		settings = append(settings, setting{settingMaxConcurrentStreams, c.cfg.MaxConcurrentStreams})
		if c.cfg.ExtendedConnect {
			settings = append(settings, setting{settingEnableConnect, 1})
		}
	}
	k.b = appendSettings(k.b, settings...)
	if more := c.cfg.ConnWindow - defaultWindow; more > 0 {
		k.b = appendWindowUpdate(k.b, 0, uint32(more))
		c.window += more
	}
	c.sentAt = time.Since(c.start)
	c.startKeepalive()
	c.release(b)
}

// transportWaker hears from a transport that it takes bytes again.
type transportWaker Conn

func (w *transportWaker) Wake(b *task.Batch) { b.Touch((*Conn)(w)) }

// Open sends a request and returns its stream, whose waker is w. end: nothing
// follows the head. It fails with ErrNoCapacity if the peer's limit is reached,
// and with why the connection ends if it does.
func (c *Conn) Open(b *task.Batch, h *Head, end bool, w task.Waker) (*Stream, error) {
	c.mu.Lock()
	s, err := c.open(h, end, w)
	c.release(b)
	return s, err
}

func (c *Conn) open(h *Head, end bool, w task.Waker) (*Stream, error) {
	switch {
	case c.err != nil:
		return nil, c.err
	case c.capacity() == 0:
		return nil, ErrNoCapacity
	case h.Protocol != "" && !c.connect:
		return nil, errNoProtocol
	case !c.fits(h.Fields):
		return nil, ErrHeadTooLarge
	}
	s := c.newStream(c.nextID)
	c.nextID += 2
	s.waker, s.sentHead = w, true
	s.noContent, s.connect = h.Method == "HEAD", h.Method == "CONNECT"
	c.streams[s.id] = s
	c.sendRequest(s.id, h, end)
	s.headEnd, s.sendEnd = c.out.end(), end
	if c.nextID > maxStreamID {
		c.draining = true // no number is left
	}
	return s, nil
}

// capacity is how many streams may be opened now.
func (c *Conn) capacity() int {
	if !c.client || c.draining || c.closing || c.dead {
		return 0
	}
	return max(int(c.peerLimit)-len(c.streams), 0)
}

// Capacity returns how many streams may be opened now: 0 on a server, on a
// connection that drains, and at the peer's limit.
func (c *Conn) Capacity() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capacity()
}

// Limit returns how many streams the peer lets us have open at a time. Until its
// settings have arrived that is a guess.
func (c *Conn) Limit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(min(c.peerLimit, math.MaxInt32))
}

// Streams returns how many streams are open.
func (c *Conn) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

// Settled reports whether the peer's settings have arrived. Before, Capacity is
// a guess and ConnectProtocol false.
func (c *Conn) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled
}

// ConnectProtocol reports whether the peer takes extended CONNECT (RFC 8441).
func (c *Conn) ConnectProtocol() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connect
}

// Draining reports whether the connection takes no new streams: a GOAWAY was
// received or sent, or it has ended.
func (c *Conn) Draining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining || c.closing || c.dead
}

// Err returns why the connection ends or has ended, nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// release lets go of mu after doing what must not be done with it: waking,
// telling the handler, aborting the transport. Every entry into the connection
// ends here.
func (c *Conn) release(b *task.Batch) {
	if c.out.queued() > hardLimit && !c.dead {
		c.cut(errOutputLimit)
	}
	for c.nextDuty(b) {
	}
	touch := c.out.queued() > 0 && !c.stuck && !c.dead || c.lookAgain
	c.lookAgain = false
	c.mu.Unlock()
	if touch {
		b.Touch(c)
	}
}

// nextDuty does one thing that wants mu unlocked and reports whether there was one.
func (c *Conn) nextDuty(b *task.Batch) bool {
	switch {
	case c.wokenAt < len(c.woken):
		c.wakeOne(b)
	case c.cutFor != nil:
		err := c.cutFor
		c.cutFor = nil
		c.mu.Unlock()
		c.t.Abort(b, err)
		c.mu.Lock()
	case c.changed:
		c.changed = false
		c.mu.Unlock()
		c.h.Changed(b, c)
		c.mu.Lock()
	default:
		return false
	}
	return true
}

// wakeOne takes one stream off c.woken and wakes its owner, or tells the handler
// of it.
func (c *Conn) wakeOne(b *task.Batch) {
	s := c.woken[c.wokenAt]
	c.woken[c.wokenAt] = nil
	if c.wokenAt++; c.wokenAt == len(c.woken) {
		c.woken, c.wokenAt = c.woken[:0], 0
	}
	s.signalled = false
	w := s.waker
	if s.toAccept {
		s.toAccept = false
		if s.err != nil { // reset before anybody worked for it
			c.letGo(s)
			return
		}
		c.mu.Unlock()
		c.h.Accept(b, s)
		c.mu.Lock()
		return
	}
	if w != nil {
		c.mu.Unlock()
		w.Wake(b)
		c.mu.Lock()
	}
}
