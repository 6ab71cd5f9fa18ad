package h2

import "encoding/binary"

// frameType is the type octet of a frame header (RFC 9113 section 6).
type frameType uint8

const (
	frameData         frameType = 0x0
	frameHeaders      frameType = 0x1
	framePriority     frameType = 0x2
	frameRSTStream    frameType = 0x3
	frameSettings     frameType = 0x4
	framePushPromise  frameType = 0x5
	framePing         frameType = 0x6
	frameGoAway       frameType = 0x7
	frameWindowUpdate frameType = 0x8
	frameContinuation frameType = 0x9
)

const (
	flagEndStream  = 0x1 // DATA, HEADERS
	flagAck        = 0x1 // SETTINGS, PING
	flagEndHeaders = 0x4 // HEADERS, CONTINUATION
	flagPadded     = 0x8 // DATA, HEADERS
	flagPriority   = 0x20
)

const (
	headerLen = 9
	// maxFrame is the largest payload that we take and that we send. It is the
	// least that any peer takes, so the peer's SETTINGS_MAX_FRAME_SIZE never
	// matters. Larger ones would fill more than one TLS record and delay the
	// other streams.
	maxFrame = 16 << 10
	// maxStreamID is the largest stream id; maxWindow the largest window.
	maxStreamID = 1<<31 - 1
	maxWindow   = 1<<31 - 1
	// defaultWindow is the window that both levels start with (section 6.9.2).
	defaultWindow = 65535

	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// frameHeader is the fixed part in front of every frame.
type frameHeader struct {
	length   int
	typ      frameType
	flags    uint8
	streamID uint32
}

func (h frameHeader) has(flag uint8) bool { return h.flags&flag != 0 }

// parseHeader reads the header at the start of p, which holds headerLen bytes.
func parseHeader(p []byte) frameHeader {
	_ = p[headerLen-1]
	return frameHeader{
		length:   int(p[0])<<16 | int(p[1])<<8 | int(p[2]),
		typ:      frameType(p[3]),
		flags:    p[4],
		streamID: binary.BigEndian.Uint32(p[5:]) & maxStreamID,
	}
}

// putHeader writes h over the first headerLen bytes of p.
func putHeader(p []byte, h frameHeader) {
	_ = p[headerLen-1]
	p[0], p[1], p[2] = byte(h.length>>16), byte(h.length>>8), byte(h.length)
	p[3], p[4] = byte(h.typ), h.flags
	binary.BigEndian.PutUint32(p[5:], h.streamID)
}

func appendHeader(p []byte, h frameHeader) []byte {
	p = append(p, byte(h.length>>16), byte(h.length>>8), byte(h.length), byte(h.typ), h.flags)
	return binary.BigEndian.AppendUint32(p, h.streamID)
}

func appendRSTStream(p []byte, id uint32, code ErrCode) []byte {
	p = appendHeader(p, frameHeader{length: 4, typ: frameRSTStream, streamID: id})
	return binary.BigEndian.AppendUint32(p, uint32(code))
}

func appendWindowUpdate(p []byte, id, increment uint32) []byte {
	p = appendHeader(p, frameHeader{length: 4, typ: frameWindowUpdate, streamID: id})
	return binary.BigEndian.AppendUint32(p, increment)
}

func appendPing(p []byte, ack bool, data [8]byte) []byte {
	h := frameHeader{length: 8, typ: framePing}
	if ack {
		h.flags = flagAck
	}
	return append(appendHeader(p, h), data[:]...)
}

func appendGoAway(p []byte, lastID uint32, code ErrCode, debug string) []byte {
	p = appendHeader(p, frameHeader{length: 8 + len(debug), typ: frameGoAway})
	p = binary.BigEndian.AppendUint32(p, lastID)
	p = binary.BigEndian.AppendUint32(p, uint32(code))
	return append(p, debug...)
}

// settingID names a parameter of SETTINGS (RFC 9113 section 6.5.2).
type settingID uint16

const (
	settingHeaderTableSize      settingID = 0x1
	settingEnablePush           settingID = 0x2
	settingMaxConcurrentStreams settingID = 0x3
	settingInitialWindowSize    settingID = 0x4
	settingMaxFrameSize         settingID = 0x5
	settingMaxHeaderListSize    settingID = 0x6
	settingEnableConnect        settingID = 0x8 // RFC 8441
)

const settingLen = 6

type setting struct {
	id    settingID
	value uint32
}

func appendSettings(p []byte, list ...setting) []byte {
	p = appendHeader(p, frameHeader{length: settingLen * len(list), typ: frameSettings})
	for _, s := range list {
		p = binary.BigEndian.AppendUint16(p, uint16(s.id))
		p = binary.BigEndian.AppendUint32(p, s.value)
	}
	return p
}

func appendSettingsAck(p []byte) []byte {
	return appendHeader(p, frameHeader{typ: frameSettings, flags: flagAck})
}

// unpad strips the padding of a whole DATA or HEADERS payload.
func unpad(h frameHeader, p []byte) ([]byte, bool) {
	if !h.has(flagPadded) {
		return p, true
	}
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, false
	}
	return p[1 : len(p)-int(p[0])], true
}
