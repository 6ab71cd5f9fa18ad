package h1

import (
	"bytes"
	"strings"
)

// Response is the head of a response.
type Response struct {
	head
	Status int
	Reason string // may be empty
}

// What is wrong with a response besides what can be wrong with any message.
var (
	ErrStatus       = bad("malformed_status")
	ErrSwitch       = bad("unexpected_switch_of_protocols")
	ErrBodyOfNoBody = bad("transfer_encoding_without_body")
)

// Parse reads a complete head, as the Scanner found it.
func (r *Response) Parse(p []byte, limits Limits) error {
	p = r.load(p)
	r.Status, r.Reason = 0, ""
	end := bytes.IndexByte(p, '\n')
	if err := r.parseLine(view(p[:end-1])); err != nil {
		return err
	}
	if err := r.parseFields(p[end+1:], limits); err != nil {
		return err
	}
	// RFC 9112 6.1: these have no body, and who reads one differs from who does not.
	if (r.Status < 200 || r.Status == 204) && r.Chunked {
		return ErrBodyOfNoBody
	}
	return nil
}

func (r *Response) parseLine(line string) error {
	version, rest, ok := strings.Cut(line, " ")
	if !ok || len(rest) < 3 {
		return ErrStartLine
	}
	minor, err := parseVersion(version)
	if err != nil {
		return err
	}
	r.Minor = minor
	for i := range 3 {
		c := rest[i]
		if c < '0' || c > '9' {
			return ErrStatus
		}
		r.Status = r.Status*10 + int(c-'0')
	}
	if r.Status < 100 || len(rest) > 3 && rest[3] != ' ' {
		return ErrStatus
	}
	if len(rest) > 4 {
		r.Reason = rest[4:]
	}
	if !ValidValue(r.Reason) {
		return ErrStartLine
	}
	return nil
}

// Interim reports whether another response follows this one.
func (r *Response) Interim() bool { return r.Status < 200 && r.Status != 101 }

// Framing returns how the body that answers method is delimited.
func (r *Response) Framing(method string) Framing {
	switch {
	case method == "HEAD" || r.Status < 200 || r.Status == 204 || r.Status == 304:
		return Framing{Kind: NoBody}
	case r.Chunked:
		return Framing{Kind: ChunkedBody}
	case r.Length >= 0:
		return Framing{Kind: FixedBody, Length: r.Length}
	}
	return Framing{Kind: UntilClose}
}
