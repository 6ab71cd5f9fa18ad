package meshtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Settings is what one end of a tunnel tells the other. A zero field means what
// ztunnel says.
type Settings struct {
	StreamWindow     uint32 // credit of a stream in bytes: 4 MiB
	ConnectionWindow uint32 // credit of the connection in bytes: 16 MiB
	MaxFrameSize     uint32 // largest frame we read, in bytes: 1 MiB
	MaxHeaderList    uint32 // header fields we read, in bytes as HPACK counts them: 64 KiB
	MaxStreams       uint32 // streams that the other end may have open: 200
}

func (s Settings) withDefaults() Settings {
	for field, ztunnel := range map[*uint32]uint32{
		&s.StreamWindow: 4 << 20, &s.ConnectionWindow: 16 << 20, &s.MaxFrameSize: 1 << 20,
		&s.MaxHeaderList: 64 << 10, &s.MaxStreams: 200,
	} {
		if *field == 0 {
			*field = ztunnel
		}
	}
	return s
}

const (
	protocolWindow   = 65535    // both windows before any setting, RFC 9113 section 6.9.2
	ztunnelFrameSize = 16 << 10 // it was never seen to send more in one frame, whatever we allowed
	ztunnelStreams   = 100      // streams it opens on one connection at most, also before our settings have come
)

// Conn is one HTTP/2 connection that carries CONNECT streams. It is as plain as
// can be: calls that block, one goroutine that reads, a lock around the writes.
type Conn struct {
	raw      net.Conn
	server   bool
	settings Settings
	accept   func(*Stream)   // of a server: called on a goroutine of its own for each stream
	tasks    *sync.WaitGroup // counts our goroutines and those of accept
	done     chan struct{}   // closed when the connection is over

	// The reader must read on while others are stuck in a write, or two ends like
	// this one wait for each other. What it has to say goes through here.
	replies chan func() error

	wmu     sync.Mutex // makes one frame follow another; stream ids and the encoder go with the frames
	out     *bufio.Writer
	framer  *http2.Framer // its reading half belongs to the read loop
	encoder *hpack.Encoder
	encoded bytes.Buffer
	nextID  uint32

	mu         sync.Mutex // guards what follows, and what the streams say of it
	streams    map[uint32]*Stream
	lastID     uint32 // server: the newest stream that we accepted
	sendWindow int64
	owed       uint32   // read, and not yet granted to the peer again
	peer       Settings // as far as it has said
	pongs      map[[8]byte]chan struct{}
	goneAway   *GoAway
	err        error
}

// GoAway is a peer's GOAWAY frame: streams above LastID were not looked at.
type GoAway struct {
	LastID uint32
	Code   http2.ErrCode
}

// Error makes it the cause that ends those streams.
func (g *GoAway) Error() string {
	return "the peer sent GOAWAY (" + g.Code.String() + ") and did not look at this stream"
}

// ResetError is a stream that the peer reset, with its code.
type ResetError struct{ Code http2.ErrCode }

func (e *ResetError) Error() string { return "stream reset by the peer: " + e.Code.String() }

// newConn makes a connection of a client, or with accept of a server.
func newConn(raw net.Conn, s Settings, tasks *sync.WaitGroup, accept func(*Stream)) *Conn {
	c := &Conn{
		raw:        raw,
		server:     accept != nil,
		settings:   s.withDefaults(),
		accept:     accept,
		tasks:      tasks,
		done:       make(chan struct{}),
		replies:    make(chan func() error, 4096),
		out:        bufio.NewWriterSize(raw, 4*ztunnelFrameSize),
		nextID:     1,
		streams:    make(map[uint32]*Stream),
		pongs:      make(map[[8]byte]chan struct{}),
		sendWindow: protocolWindow,
		peer:       Settings{StreamWindow: protocolWindow, MaxStreams: ztunnelStreams},
	}
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(raw, 64<<10))
	c.framer.SetMaxReadFrameSize(c.settings.MaxFrameSize)
	c.framer.MaxHeaderListSize = c.settings.MaxHeaderList
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.encoded)
	return c
}

// start says hello and begins to read.
func (c *Conn) start() error {
	if err := c.greet(); err != nil {
		c.raw.Close()
		return err
	}
	c.tasks.Go(c.reply)
	c.tasks.Go(func() { c.fail(c.read()) })
	return nil
}

func (c *Conn) greet() error {
	settings := []http2.Setting{
		{ID: http2.SettingInitialWindowSize, Val: c.settings.StreamWindow},
		{ID: http2.SettingMaxFrameSize, Val: c.settings.MaxFrameSize},
		{ID: http2.SettingMaxHeaderListSize, Val: c.settings.MaxHeaderList},
	}
	if c.server {
		settings = append(settings, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: c.settings.MaxStreams})
	} else {
		settings = append(settings, http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	}
	return c.write(func() error {
		if !c.server {
			if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
				return err
			}
		}
		if err := c.framer.WriteSettings(settings...); err != nil {
			return err
		}
		return c.framer.WriteWindowUpdate(0, c.settings.ConnectionWindow-protocolWindow)
	})
}

// write lets frames write frames, alone, and sends them off.
func (c *Conn) write(frames func() error) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if err := frames(); err != nil {
		return err
	}
	return c.out.Flush()
}

// reply writes what the reader wants said, in its order.
func (c *Conn) reply() {
	for {
		select {
		case frames := <-c.replies:
			if err := c.write(frames); err != nil {
				c.fail(err)
				return
			}
		case <-c.done:
			return
		}
	}
}

// later has frames written by the reply goroutine.
func (c *Conn) later(frames func() error) error {
	select {
	case c.replies <- frames:
		return nil
	default:
		return errors.New("meshtest: the peer asks for more answers than it reads")
	}
}

// fail ends the connection and all its streams, once.
func (c *Conn) fail(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	if cause == nil || errors.Is(cause, net.ErrClosed) {
		cause = io.ErrUnexpectedEOF
	}
	c.err = cause
	for _, s := range c.streams {
		s.breakOff(cause)
	}
	close(c.done)
	c.raw.Close()
}

// Close cuts the connection without a word, as a crash would.
func (c *Conn) Close() error {
	c.fail(net.ErrClosed)
	return nil
}

// Done is closed when the connection is over.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the connection is over; nil while it is not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// GoneAway is the last GOAWAY that the peer sent, nil if none has come.
func (c *Conn) GoneAway() *GoAway {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.goneAway
}

// PeerSettings is what the peer has said of itself so far.
func (c *Conn) PeerSettings() Settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// GoAway tells the peer to open no more streams here, and that those above last
// were not looked at.
func (c *Conn) GoAway(last uint32, code http2.ErrCode) error {
	return c.write(func() error { return c.framer.WriteGoAway(last, code, nil) })
}

// Ping waits for the peer to answer one. As frames keep their order, the peer
// has then seen all that was sent before, and we what it had sent by then.
func (c *Conn) Ping(ctx context.Context) error {
	data := [8]byte(binary.BigEndian.AppendUint64(nil, rand.Uint64()))
	pong := make(chan struct{})
	c.mu.Lock()
	c.pongs[data] = pong
	c.mu.Unlock()
	if err := c.write(func() error { return c.framer.WritePing(false, data) }); err != nil {
		return err
	}
	select {
	case <-pong:
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LastStream is the id of the newest stream that the peer opened.
func (c *Conn) LastStream() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastID
}

// Frames lets an attack write whatever it likes through the connection's own
// framer and encoder, whose state stays right for what follows.
func (c *Conn) Frames(write func(f *http2.Framer) error) error {
	return c.write(func() error { return write(c.framer) })
}

// usable reports whether a client may open one more stream here.
func (c *Conn) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && c.goneAway == nil && len(c.streams) < int(min(c.peer.MaxStreams, ztunnelStreams))
}
