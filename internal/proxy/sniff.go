package proxy

import (
	"bytes"
)

// guess is what the first bytes of a stream look like.
type guess uint8

const (
	undecided guess = iota // more bytes are needed
	http1
	http2
	tlsHello
	opaque
)

// preface is how an HTTP/2 client begins (RFC 9113 section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// maxMethod is the longest method that makes an undeclared stream HTTP. Longer
// ones exist in no registry.
const maxMethod = 24

// classify says what a stream that begins with p carries. It must not take
// opaque bytes for HTTP: a request line is asked to be whole, up to its version.
func classify(p []byte) guess {
	switch {
	case len(p) == 0:
		return undecided
	case p[0] == 22:
		if len(p) == 1 {
			return undecided
		}
		if p[1] == 3 {
			return tlsHello
		}
		return opaque
	case bytes.HasPrefix(p, []byte(preface[:min(len(p), len(preface))])):
		if len(p) >= len(preface) {
			return http2
		}
		return undecided
	}
	return classifyRequestLine(p)
}

// maxRequestLine bounds how long an undeclared stream is kept waiting for the
// end of what may be a request line.
const maxRequestLine = 8 << 10

func classifyRequestLine(p []byte) guess {
	for i, c := range p {
		if c == ' ' && i > 0 {
			return classifyVersion(p[i+1:])
		}
		if !isMethodByte(c) || i >= maxMethod {
			return opaque
		}
	}
	return undecided
}

// classifyVersion looks at what follows the method: a target without spaces or
// controls, and the version.
func classifyVersion(p []byte) guess {
	end := bytes.IndexByte(p, ' ')
	target := p
	if end >= 0 {
		target = p[:end]
	}
	for _, c := range target {
		if c <= ' ' || c == 0x7f {
			return opaque
		}
	}
	if end < 0 {
		if len(p) > maxRequestLine {
			return opaque
		}
		return undecided
	}
	if end == 0 {
		return opaque
	}
	const version = "HTTP/1."
	got := p[end+1:]
	if !bytes.HasPrefix([]byte(version), got[:min(len(got), len(version))]) {
		return opaque
	}
	if len(got) < len(version) {
		return undecided
	}
	return http1
}

// isMethodByte reports whether c may stand in the method of an undeclared
// stream: registered methods are upper-case letters, some with a dash.
func isMethodByte(c byte) bool {
	return 'A' <= c && c <= 'Z' || c == '-'
}
