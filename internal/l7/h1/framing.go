package h1

// BodyKind says how the end of a body is found (RFC 9112 6.3).
type BodyKind uint8

// The kinds.
const (
	NoBody BodyKind = iota
	FixedBody
	ChunkedBody
	UntilClose // of responses alone
)

// Framing says how a body is delimited.
type Framing struct {
	Kind   BodyKind
	Length int64 // of a FixedBody
}

// Framing returns how the request's body is delimited.
func (r *Request) Framing() Framing {
	switch {
	case r.Chunked:
		return Framing{Kind: ChunkedBody}
	case r.Length > 0:
		return Framing{Kind: FixedBody, Length: r.Length}
	}
	return Framing{Kind: NoBody}
}
