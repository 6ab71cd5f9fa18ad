package l4

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

var (
	// errMoreHello says that the ClientHello is not complete yet.
	errMoreHello = errors.New("the ClientHello is incomplete")
	// ErrNotTLS says that the first bytes are no TLS ClientHello.
	ErrNotTLS = errors.New("the first bytes are no TLS ClientHello")
)

const (
	recordHeader    = 5
	recordHandshake = 22
	helloType       = 1
	extServerName   = 0
	// MaxHello bounds the bytes looked at. A hello with the largest post-quantum
	// key shares in use stays below 4 KiB.
	MaxHello = 16 << 10
)

// ReadServerName waits for the ClientHello that s begins with and returns the
// server name in it, see [ServerName]. It consumes nothing. The error is
// [ErrNotTLS], that of the stream, or that of t's deadline.
func ReadServerName(t *task.Task, s task.Stream) (string, error) {
	for {
		p := s.Peek()
		name, err := ServerName(p)
		if !errors.Is(err, errMoreHello) {
			return name, err
		}
		if len(p) > MaxHello {
			return "", ErrNotTLS
		}
		if err := task.ReadMore(t, s, len(p)); err != nil {
			return "", err
		}
	}
}

// ServerName returns the server name in the ClientHello that p begins with, in
// lower case, or "" if it carries none (RFC 6066 section 3, RFC 8446 section
// 4.1.2). A hello may be cut into several records. If p ends before the hello
// does, the error is errMoreHello.
func ServerName(p []byte) (string, error) {
	hello, err := handshakeBody(p)
	if err != nil {
		return "", err
	}
	r := reader{p: hello}
	r.take(2 + 32)     // legacy_version, random
	r.take(r.uint8())  // legacy_session_id
	r.take(r.uint16()) // cipher_suites
	r.take(r.uint8())  // legacy_compression_methods
	if r.bad {
		return "", ErrNotTLS
	}
	exts := reader{p: r.take(r.uint16())}
	for len(exts.p) > 0 && !exts.bad {
		kind := exts.uint16()
		body := exts.take(exts.uint16())
		if kind == extServerName && !exts.bad {
			return serverNameList(body)
		}
	}
	return "", nil
}

// serverNameList returns the host_name of the extension's list.
func serverNameList(ext []byte) (string, error) {
	r := reader{p: ext}
	list := reader{p: r.take(r.uint16())}
	for len(list.p) > 0 && !list.bad {
		kind := list.uint8()
		name := list.take(list.uint16())
		if kind == 0 && !list.bad {
			return strings.ToLower(strings.TrimSuffix(string(name), ".")), nil
		}
	}
	return "", ErrNotTLS
}

// handshakeBody joins the records of the first handshake message and returns
// its body. One record is the rule, and then nothing is copied.
func handshakeBody(p []byte) ([]byte, error) {
	var joined []byte
	for records := 1; ; records++ {
		if len(p) > 0 && p[0] != recordHandshake || len(p) > 1 && p[1] != 3 {
			return nil, ErrNotTLS
		}
		if len(p) < recordHeader {
			return nil, errMoreHello
		}
		n := int(binary.BigEndian.Uint16(p[3:]))
		if n == 0 || n > MaxHello {
			return nil, ErrNotTLS
		}
		whole := len(p) >= recordHeader+n
		body := p[recordHeader:min(len(p), recordHeader+n)]
		switch records {
		case 1:
			joined = body
		case 2: // from here on joined is ours
			joined = append(append(make([]byte, 0, MaxHello), joined...), body...)
		default:
			joined = append(joined, body...)
		}
		if len(joined) > 0 && joined[0] != helloType {
			return nil, ErrNotTLS
		}
		if len(joined) >= 4 {
			size := int(joined[1])<<16 | int(joined[2])<<8 | int(joined[3])
			if size > MaxHello {
				return nil, ErrNotTLS
			}
			if len(joined) >= 4+size {
				return joined[4 : 4+size], nil
			}
		}
		if !whole {
			return nil, errMoreHello
		}
		p = p[recordHeader+n:]
	}
}

// reader takes big-endian values off the front of p. Reading beyond the end makes
// it bad, for good: the caller checks once.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.p) {
		r.p, r.bad = nil, true
		return nil
	}
	out := r.p[:n]
	r.p = r.p[n:]
	return out
}

func (r *reader) uint8() int {
	if b := r.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (r *reader) uint16() int {
	if b := r.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}
