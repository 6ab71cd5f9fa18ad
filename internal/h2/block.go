package h2

import (
	"strings"

	"golang.org/x/net/http2/hpack"
)

// pseudoSet is the set of pseudo-header fields seen in a section.
type pseudoSet uint8

const (
	pseudoMethod pseudoSet = 1 << iota
	pseudoScheme
	pseudoAuthority
	pseudoPath
	pseudoProtocol
	pseudoStatus
)

func (s pseudoSet) has(p pseudoSet) bool { return s&p != 0 }

// section is what a header block stands for.
type section uint8

const (
	discarded section = iota // decoded for the state of the compression alone
	request
	response
	trailers
)

const (
	// maxContinuations bounds the frames of one block (CVE-2024-27919 and its
	// kin). 64 KiB need four.
	maxContinuations = 64
	// blockSlack is how much more than MaxHeaderBytes a block may have on the
	// wire before the connection is cut: below, a request can be answered 431.
	blockSlack = 64 << 10
)

// block is the header block being received. It is decoded frame by frame, so
// nothing is kept but its fields.
type block struct {
	open     bool // CONTINUATION must follow
	kind     section
	streamID uint32
	stream   *Stream // nil if discarded or a request
	end      bool    // END_STREAM
	frames   int
	wire     int // bytes of the block so far

	got       *received
	seen      pseudoSet
	regular   bool // a regular field was seen
	bytes     int  // decoded, as MaxHeaderBytes counts
	fields    int
	tooLarge  bool
	malformed string // what is wrong with it, "" if nothing
	hostSeen  bool
	hostValue string
	length    int64 // Content-Length; -1: none
}

// beginBlock prepares for the block of a HEADERS frame.
func (c *Conn) beginBlock(kind section, h frameHeader, s *Stream) {
	c.block = block{
		open: true, kind: kind, streamID: h.streamID, stream: s, end: h.has(flagEndStream), length: -1,
	}
	if kind != discarded {
		c.block.got = newReceived()
	}
	c.decoder.SetEmitEnabled(kind != discarded)
}

// fragment decodes one frame's part of the block.
func (c *Conn) fragment(h frameHeader, p []byte) error {
	bl := &c.block
	bl.wire += len(p)
	if bl.wire > c.cfg.MaxHeaderBytes+blockSlack {
		return connError(EnhanceYourCalm, "header block far above the limit")
	}
	if _, err := c.decoder.Write(p); err != nil {
		return connError(CompressionError, err.Error())
	}
	if !h.has(flagEndHeaders) {
		return nil
	}
	bl.open = false
	if err := c.decoder.Close(); err != nil {
		return connError(CompressionError, err.Error())
	}
	return c.endBlock()
}

// emit takes one decoded field.
func (c *Conn) emit(f hpack.HeaderField) {
	bl := &c.block
	bl.bytes += len(f.Name) + len(f.Value) + 32
	bl.fields++
	if bl.bytes > c.cfg.MaxHeaderBytes || bl.fields > c.cfg.MaxHeaderFields {
		bl.tooLarge = true
		c.decoder.SetEmitEnabled(false) // the rest costs no memory any more
		return
	}
	if bl.malformed != "" {
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		bl.malformed = bl.pseudo(f.Name, f.Value)
		return
	}
	bl.regular = true
	bl.malformed = bl.field(f.Name, f.Value)
}

// pseudo takes a pseudo-header field and returns what is wrong with it, or "".
func (bl *block) pseudo(name, value string) string {
	if bl.regular {
		return "pseudo-header field after a regular one"
	}
	h := &bl.got.Head
	var mark pseudoSet
	var into *string
	switch {
	case bl.kind == response && name == ":status":
		mark = pseudoStatus
		status, ok := parseStatus(value)
		if !ok {
			return ":status is not a status"
		}
		h.Status = status
	case bl.kind != request:
		return "pseudo-header field " + name + " does not belong here"
	case name == ":method":
		mark, into = pseudoMethod, &h.Method
	case name == ":scheme":
		mark, into = pseudoScheme, &h.Scheme
	case name == ":authority":
		mark, into = pseudoAuthority, &h.Authority
	case name == ":path":
		mark, into = pseudoPath, &h.Path
	case name == ":protocol":
		mark, into = pseudoProtocol, &h.Protocol
	default:
		return "unknown pseudo-header field"
	}
	if bl.seen.has(mark) {
		return "pseudo-header field " + name + " twice"
	}
	bl.seen |= mark
	if into != nil {
		*into = value
	}
	return ""
}

// field takes a regular field and returns what is wrong with it, or "".
func (bl *block) field(name, value string) string {
	if wrong := checkField(name, value); wrong != "" {
		return wrong
	}
	switch name {
	case "host":
		if bl.kind == request {
			return bl.hostField(value)
		}
	case "content-length":
		n, ok := parseLength(value)
		if !ok || bl.length >= 0 && bl.length != n {
			return "content-length is not a number, or two differ"
		}
		bl.length = n
	}
	bl.got.Fields = append(bl.got.Fields, Field{Name: name, Value: value})
	return ""
}

// hostField remembers Host, which becomes the authority.
func (bl *block) hostField(value string) string {
	if bl.hostSeen {
		return "host twice"
	}
	bl.hostSeen, bl.hostValue = true, value
	return ""
}

// check returns what is wrong with the section as a whole, or "".
func (bl *block) check(extendedConnect bool) string {
	if bl.malformed != "" {
		return bl.malformed
	}
	h := &bl.got.Head
	switch bl.kind {
	case request:
		if wrong := checkRequest(h, bl.seen, extendedConnect); wrong != "" && !bl.tooLarge {
			return wrong
		}
		if bl.hostSeen {
			return setHost(h, bl.seen, bl.hostValue)
		}
	case response:
		switch {
		case bl.tooLarge:
			return "response header section above the limit"
		case !bl.seen.has(pseudoStatus):
			return ":status is missing"
		case h.Status == 101:
			return "status 101 does not exist in HTTP/2"
		case h.interim() && bl.end:
			return "interim response that ends the stream"
		}
	case trailers:
		switch {
		case bl.tooLarge:
			return "trailer section above the limit"
		case !bl.end:
			return "trailers that do not end the stream"
		}
	}
	return ""
}
