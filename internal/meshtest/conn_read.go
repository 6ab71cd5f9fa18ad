package meshtest

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2"
)

// read takes frames until the connection ends, and returns why it did.
func (c *Conn) read() error {
	if c.server {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c.raw, preface); err != nil {
			return err
		}
		if string(preface) != http2.ClientPreface {
			return fmt.Errorf("meshtest: the client spoke no HTTP/2, its first bytes were %q", preface)
		}
	}
	for {
		frame, err := c.framer.ReadFrame()
		var broken http2.StreamError
		switch {
		case errors.As(err, &broken):
			err = c.reset(broken.StreamID, broken.Code)
		case err == nil:
			err = c.handle(frame)
		}
		if err != nil {
			return err
		}
	}
}

func (c *Conn) handle(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		return c.handleSettings(f)
	case *http2.PingFrame:
		return c.handlePing(f)
	case *http2.WindowUpdateFrame:
		c.handleWindowUpdate(f)
	case *http2.MetaHeadersFrame:
		return c.handleHeaders(f)
	case *http2.DataFrame:
		return c.handleData(f)
	case *http2.RSTStreamFrame:
		c.mu.Lock()
		defer c.mu.Unlock()
		if s := c.streams[f.StreamID]; s != nil {
			s.breakOff(&ResetError{f.ErrCode})
			delete(c.streams, f.StreamID)
		}
	case *http2.GoAwayFrame:
		c.handleGoAway(&GoAway{f.LastStreamID, f.ErrCode})
	}
	return nil
}

func (c *Conn) handlePing(f *http2.PingFrame) error {
	data := f.Data
	if !f.IsAck() {
		return c.later(func() error { return c.framer.WritePing(true, data) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if pong := c.pongs[data]; pong != nil {
		delete(c.pongs, data)
		close(pong)
	}
	return nil
}

func (c *Conn) handleSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingInitialWindowSize:
			for _, stream := range c.streams {
				stream.addCredit(int64(s.Val) - int64(c.peer.StreamWindow))
			}
			c.peer.StreamWindow = s.Val
		case http2.SettingMaxConcurrentStreams:
			c.peer.MaxStreams = s.Val
		case http2.SettingMaxFrameSize:
			c.peer.MaxFrameSize = s.Val
		case http2.SettingMaxHeaderListSize:
			c.peer.MaxHeaderList = s.Val
		case http2.SettingHeaderTableSize, http2.SettingEnablePush, http2.SettingEnableConnectProtocol, http2.SettingNoRFC7540Priorities:
			// nothing that the kit does depends on these
		}
		return s.Valid()
	})
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.later(c.framer.WriteSettingsAck)
}

func (c *Conn) handleWindowUpdate(f *http2.WindowUpdateFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID != 0 {
		if s := c.streams[f.StreamID]; s != nil {
			s.addCredit(int64(f.Increment))
		}
		return
	}
	c.sendWindow += int64(f.Increment)
	for _, s := range c.streams {
		s.changed.Broadcast()
	}
}

func (c *Conn) handleHeaders(f *http2.MetaHeadersFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[f.StreamID]
	if s == nil && c.server && f.StreamID > c.lastID {
		if len(c.streams) >= int(c.settings.MaxStreams) {
			return c.later(func() error { return c.framer.WriteRSTStream(f.StreamID, http2.ErrCodeRefusedStream) })
		}
		c.lastID = f.StreamID
		s = c.newStream(f.StreamID)
		s.setHeader(f)
		c.tasks.Go(func() { c.accept(s) })
	} else if s != nil {
		s.setHeader(f)
	}
	if s != nil && f.StreamEnded() {
		s.endRead()
	}
	return nil
}

func (c *Conn) handleData(f *http2.DataFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, size := f.StreamID, f.Length // padding counts against the windows too
	s := c.streams[id]
	switch {
	case s == nil, s.closed:
		// As ztunnel: the application has left, so say so once it matters.
		if s != nil {
			s.drop()
			if err := c.later(func() error { return c.framer.WriteRSTStream(id, http2.ErrCodeCancel) }); err != nil {
				return err
			}
		}
		return c.credit(0, size)
	default:
		s.receive(f.Data())
		if padding := size - uint32(len(f.Data())); padding > 0 {
			if err := errors.Join(c.credit(0, padding), c.credit(id, padding)); err != nil {
				return err
			}
		}
		if f.StreamEnded() {
			s.endRead()
		}
		return nil
	}
}

// credit has the reply goroutine grant the peer n more bytes; stream 0 is the
// connection.
func (c *Conn) credit(stream, n uint32) error {
	if n == 0 {
		return nil
	}
	return c.later(func() error { return c.framer.WriteWindowUpdate(stream, n) })
}

func (c *Conn) handleGoAway(g *GoAway) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goneAway = g
	for id, s := range c.streams {
		if !c.server && id > g.LastID {
			s.breakOff(g)
			delete(c.streams, id)
		}
	}
}

// reset answers a stream that broke the protocol.
func (c *Conn) reset(id uint32, code http2.ErrCode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[id]; s != nil {
		s.breakOff(&ResetError{code})
		delete(c.streams, id)
	}
	return c.later(func() error { return c.framer.WriteRSTStream(id, code) })
}
