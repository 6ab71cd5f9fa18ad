package flow

import (
	"encoding/hex"
	"strings"
)

// Trace is the trace context of one request: what the caller sent, read by
// [Trace.Extract], and what an [Observer] made of it in Start. The zero value:
// there is none.
//
// What goes upstream is W3C whatever came in. If Valid, the fields traceparent
// and tracestate are replaced by ours; else those of the caller stay as they
// are. Fields of B3 are always left alone: an application that reads nothing
// else stays in its trace, as a sibling of our span.
type Trace struct {
	TraceID  [16]byte
	ParentID [8]byte // the caller's span; zero: we are the root
	SpanID   [8]byte // ours, parent of what the upstream makes; ParentID where we make none
	Sampled  bool    // somebody records this trace
	Decided  bool    // the caller said whether; B3 may leave it to us
	State    string  // tracestate
}

// Field is one header field, the name in lower case.
type Field = struct{ Name, Value string }

// Valid reports whether there is a context to hand on.
func (t *Trace) Valid() bool { return t.TraceID != [16]byte{} && t.SpanID != [8]byte{} }

// traceFields are those of all ways to send a context.
type traceFields struct {
	parent, state, b3, b3Trace, b3Span, b3Sampled, b3Flags string

	ambiguous bool // several traceparent fields, none of which is to be believed
}

// Extract reads the caller's context out of a request's fields: W3C, else B3 in
// one field, else B3 in several. It overwrites t. A context that is not exactly
// as its specification says counts as absent, since a wrong trace is worse than
// a new one.
func (t *Trace) Extract(fields []Field) {
	var h traceFields
	if !h.collect(fields) {
		*t = Trace{}
		return
	}
	if !h.ambiguous {
		if got, ok := ParseTraceparent(h.parent); ok {
			*t = got
			if validState(h.state) {
				t.State = h.state
			}
			return
		}
	}
	if got, ok := ParseB3(h.b3); ok {
		*t = got
		return
	}
	*t, _ = parseB3Multi(h.b3Trace, h.b3Span, h.b3Sampled, h.b3Flags)
}

func (h *traceFields) collect(fields []Field) (found bool) {
	for i := range fields {
		f := &fields[i]
		switch f.Name {
		case "traceparent":
			h.ambiguous = h.parent != ""
			h.parent = f.Value
		case "tracestate":
			h.addState(f.Value)
		case "b3":
			h.b3 = f.Value
		case "x-b3-traceid":
			h.b3Trace = f.Value
		case "x-b3-spanid":
			h.b3Span = f.Value
		case "x-b3-sampled":
			h.b3Sampled = f.Value
		case "x-b3-flags":
			h.b3Flags = f.Value
		default:
			continue
		}
		found = true
	}
	return found
}

// ParseTraceparent reads a traceparent field (W3C Trace Context, section 3.2).
// The caller's span is in ParentID and, until somebody makes one of our own, in
// SpanID.
func ParseTraceparent(s string) (t Trace, ok bool) {
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(s) < size || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Trace{}, false
	}
	var version, flags [1]byte
	valid := lowerHex(version[:], s[:2]) && version[0] != 0xff &&
		lowerHex(t.TraceID[:], s[3:35]) && t.TraceID != [16]byte{} &&
		lowerHex(t.ParentID[:], s[36:52]) && t.ParentID != [8]byte{} &&
		lowerHex(flags[:], s[53:55])
	// Version 0 ends here. Later ones may go on, after another dash.
	if !valid || len(s) > size && (version[0] == 0 || s[size] != '-') {
		return Trace{}, false
	}
	t.SpanID = t.ParentID
	t.Sampled, t.Decided = flags[0]&1 != 0, true
	return t, true
}

// AppendTraceparent appends the value of the traceparent field to send upstream.
// It is meaningful only if t is Valid.
func (t *Trace) AppendTraceparent(b []byte) []byte {
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, t.TraceID[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, t.SpanID[:])
	if t.Sampled {
		return append(b, "-01"...)
	}
	return append(b, "-00"...)
}

// ParseB3 reads the field b3: TRACE-SPAN, TRACE-SPAN-SAMPLED or
// TRACE-SPAN-SAMPLED-PARENT, or SAMPLED alone, which is a decision without a
// context. A trace of 64 bits is filled up with zeros on the left.
func ParseB3(s string) (t Trace, ok bool) {
	if len(s) == 1 {
		ok = t.decide(s)
		return t, ok
	}
	trace, rest, _ := strings.Cut(s, "-")
	span, rest, decided := strings.Cut(rest, "-")
	if !t.setB3(trace, span) {
		return Trace{}, false
	}
	if !decided {
		return t, true
	}
	sampled, parent, hasParent := strings.Cut(rest, "-")
	var grandparent [8]byte // checked, and of no use to us
	if !t.decide(sampled) || hasParent && !lowerHex(grandparent[:], parent) {
		return Trace{}, false
	}
	return t, true
}

func parseB3Multi(trace, span, sampled, flags string) (t Trace, ok bool) {
	if trace != "" || span != "" {
		if !t.setB3(trace, span) {
			return Trace{}, false
		}
	}
	if flags == "1" { // debug implies sampled, which is not sent then
		sampled = "d"
	}
	if sampled != "" && !t.decide(sampled) {
		return Trace{}, false
	}
	return t, true
}

func (t *Trace) setB3(trace, span string) bool {
	id := t.TraceID[:]
	if len(trace) == 16 {
		id = id[8:]
	}
	if !lowerHex(id, trace) || !lowerHex(t.ParentID[:], span) {
		return false
	}
	t.SpanID = t.ParentID
	return t.Valid()
}

// decide reads a sampling state. The words are an older spelling that some
// libraries still send.
func (t *Trace) decide(s string) bool {
	switch s {
	case "1", "d", "true":
		t.Sampled = true
	case "0", "false":
	default:
		return false
	}
	t.Decided = true
	return true
}

// The limits of W3C Trace Context, section 3.3: up to 32 members have to be
// carried, and 512 bytes of them at least.
const (
	maxStateMembers = 32
	maxState        = 512
)

// addState appends one tracestate field: several are one list. What is too long
// already does not grow any more.
func (h *traceFields) addState(value string) {
	switch {
	case h.state == "":
		h.state = value
	case len(h.state) <= maxState:
		h.state += "," + value
	}
}

// validState reports whether a tracestate may be handed on. One that breaks the
// rules is dropped as a whole, as the specification asks.
func validState(s string) bool {
	if len(s) > maxState || strings.Count(s, ",") >= maxStateMembers {
		return false
	}
	for more := true; more; {
		var member string
		member, s, more = strings.Cut(s, ",")
		if !validMember(strings.Trim(member, " \t")) {
			return false
		}
	}
	return true
}

// validMember checks key=value; an empty member is allowed.
func validMember(s string) bool {
	if s == "" {
		return true
	}
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" || len(key) > 256 || value == "" || len(value) > 256 {
		return false
	}
	for i := range len(key) {
		if c := key[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '*' || c == '/' || c == '@') {
			return false
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '=' { // printable, and no '='
			return false
		}
	}
	return true
}

// lowerHex decodes s, which has to fill dst exactly. Upper case is refused, as
// both specifications ask.
func lowerHex(dst []byte, s string) bool {
	if len(s) != 2*len(dst) {
		return false
	}
	for i := range dst {
		hi, lo := nibble(s[2*i]), nibble(s[2*i+1])
		if hi > 0xf || lo > 0xf {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}
