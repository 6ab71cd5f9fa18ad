package h1

import (
	"bytes"
	"slices"
	"strings"
)

// Limits of a head. Its bytes are limited by the Scanner.
type Limits struct {
	Fields int // the number of fields
}

// maxOptions bounds the Connection fields of one head.
const maxOptions = 8

// head is what requests and responses have in common.
type head struct {
	Header
	// Length is the value of Content-Length, -1 without it.
	Length int64
	// Chunked: the body is in the chunked coding.
	Chunked bool
	// Close: the sender closes the connection, or expects it to be closed,
	// after this exchange.
	Close bool
	// Upgrade is the protocol that the sender wants to change to, or changes to.
	// The field "upgrade" is then among the Fields, for routes to match.
	Upgrade string
	// Trailers: the sender of a request takes trailers (TE: trailers).
	Trailers bool
	// Minor is the x of HTTP/1.x.
	Minor int

	buf []byte // backs every string: the head as it came, then names in lower case
	hop hop
}

// hop is what the fields said that are not passed on, before it is judged.
type hop struct {
	host        string
	hosts       int
	codings     int // Transfer-Encoding fields
	coding      string
	upgrade     string
	spelling    string // of the name Upgrade
	upgradeAt   int    // where among the Fields it stood
	options     [maxOptions]string
	optionCount int
}

// load copies p and returns the copy. The buffer has room for all names again.
func (h *head) load(p []byte) []byte {
	if cap(h.buf) < 2*len(p) {
		h.buf = make([]byte, 0, max(2*len(p), 1024))
	}
	h.buf = append(h.buf[:0], p...)
	h.Header.Reset()
	h.Length, h.Chunked, h.Close, h.Upgrade, h.Trailers, h.Minor = -1, false, false, "", false, 0
	h.hop = hop{}
	return h.buf
}

// Release gives up a buffer that one large head has blown up.
func (h *head) Release() {
	if cap(h.buf) > 16<<10 {
		h.buf = nil
	}
	if cap(h.Fields) > 128 {
		h.Header = Header{}
	}
}

// lower returns name in lower case: itself, or a copy behind the head.
func (h *head) lower(name []byte) (string, bool) {
	start := -1
	for i, c := range name {
		l := token[c]
		if l == 0 {
			return "", false
		}
		if l != c && start < 0 {
			start = len(h.buf)
			h.buf = append(h.buf, name[:i]...)
		}
		if start >= 0 {
			h.buf = append(h.buf, l)
		}
	}
	if start >= 0 {
		return view(h.buf[start:]), true
	}
	return view(name), len(name) > 0
}

// parseFields reads field lines up to the empty line that ends p.
func (h *head) parseFields(p []byte, limits Limits) error {
	for count := 0; len(p) > 2; count++ {
		if count >= limits.Fields {
			return ErrTooMany
		}
		end := bytes.IndexByte(p, '\n')
		line := p[:end-1] // the Scanner saw the CR
		p = p[end+1:]
		if err := h.parseField(line); err != nil {
			return err
		}
	}
	return h.settle()
}

func (h *head) parseField(line []byte) error {
	if line[0] == ' ' || line[0] == '\t' {
		return ErrFolded
	}
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return ErrFieldName
	}
	name, ok := h.lower(line[:colon])
	if !ok {
		return ErrFieldName
	}
	value := trim(view(line[colon+1:]))
	if !ValidValue(value) {
		return ErrFieldValue
	}
	return h.sort(name, view(line[:colon]), value)
}

// sort keeps an end-to-end field, and takes note of any other.
func (h *head) sort(name, spelling, value string) error {
	switch name {
	case "host":
		h.hop.hosts++
		h.hop.host = value
	case "content-length":
		return h.contentLength(value)
	case "transfer-encoding":
		h.hop.codings++
		h.hop.coding = value
	case "connection", "proxy-connection":
		if h.hop.optionCount == maxOptions {
			return ErrConnection
		}
		h.hop.options[h.hop.optionCount] = value
		h.hop.optionCount++
	case "upgrade":
		h.hop.upgrade, h.hop.spelling, h.hop.upgradeAt = value, spelling, h.Len()
	case "te":
		h.Trailers = h.Trailers || hasOption(value, "trailers")
	case "keep-alive", "http2-settings":
	default:
		h.Header.add(name, spelling, value)
	}
	return nil
}

// contentLength takes digits alone. The same value twice counts once (RFC 9110 8.6).
func (h *head) contentLength(v string) error {
	if v == "" || len(v) > 18 { // 18 digits cannot overflow
		return ErrLength
	}
	var n int64
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return ErrLength
		}
		n = n*10 + int64(v[i]-'0')
	}
	if h.Length >= 0 && h.Length != n {
		return ErrLengths
	}
	h.Length = n
	return nil
}

// settle draws the conclusions once all fields are known.
func (h *head) settle() error {
	if h.hop.codings > 0 {
		switch {
		case h.Length >= 0:
			return ErrSmuggling
		case h.Minor == 0 || h.hop.codings > 1:
			return ErrTE
		case !EqualFold(h.hop.coding, "chunked"):
			return ErrCoding
		}
		h.Chunked = true
	}
	h.connection()
	return nil
}

// connection obeys the Connection fields: who closes, and what is not passed on.
func (h *head) connection() {
	var keepAlive, upgrade bool
	for _, options := range h.hop.options[:h.hop.optionCount] {
		for option := range strings.SplitSeq(options, ",") {
			switch option = trim(option); {
			case option == "" || EqualFold(option, "te"):
			case EqualFold(option, "close"):
				h.Close = true
			case EqualFold(option, "keep-alive"):
				keepAlive = true
			case EqualFold(option, "upgrade"):
				upgrade = true
			default:
				h.deleteFrom(0, func(name string) bool { return EqualFold(option, name) })
			}
		}
	}
	if h.Minor == 0 && !keepAlive {
		h.Close = true
	}
	if upgrade && h.hop.upgrade != "" && h.Minor > 0 {
		h.Upgrade = h.hop.upgrade
		at := min(h.hop.upgradeAt, h.Len())
		h.Fields = slices.Insert(h.Fields, at, Field{"upgrade", h.Upgrade})
		h.spelling = slices.Insert(h.spelling, at, h.hop.spelling)
	}
}

// hasOption reports whether option, in lower case, is in the comma-separated
// list. Parameters are ignored.
func hasOption(list, option string) bool {
	for o := range strings.SplitSeq(list, ",") {
		o, _, _ = strings.Cut(o, ";")
		if EqualFold(trim(o), option) {
			return true
		}
	}
	return false
}
