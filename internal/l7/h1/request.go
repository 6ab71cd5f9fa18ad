package h1

import (
	"bytes"
	"strings"
)

// Request is the head of a request.
type Request struct {
	head
	Method string
	// Scheme is that of a target in absolute form, else empty.
	Scheme string
	// Authority is the host and port asked for: the Host field, or that of a
	// target in absolute form. Empty only in HTTP/1.0.
	Authority string
	// Path is the target in origin form with its query, or "*".
	Path string
	// Expect: the sender waits for 100 (Continue) before it sends the body.
	Expect bool
}

// Parse reads a complete head, as the Scanner found it. On an error what was
// understood so far stays readable, for the log.
func (r *Request) Parse(p []byte, limits Limits) error {
	p = r.load(p)
	r.Method, r.Scheme, r.Authority, r.Path, r.Expect = "", "", "", "", false
	end := bytes.IndexByte(p, '\n')
	if err := r.parseLine(view(p[:end-1])); err != nil {
		return err
	}
	if err := r.parseFields(p[end+1:], limits); err != nil {
		return err
	}
	r.Expect = r.Minor > 0 && EqualFold(r.Get("expect"), "100-continue")
	return r.resolve()
}

// Release forgets the request, so that nothing of it is taken for part of one that
// could not be parsed, and frees memory that a large head took.
func (r *Request) Release() {
	r.head.Release()
	r.Method, r.Scheme, r.Authority, r.Path, r.Expect = "", "", "", "", false
}

// HasBody reports whether a body follows.
func (r *Request) HasBody() bool { return r.Chunked || r.Length > 0 }

func (r *Request) parseLine(line string) error {
	method, rest, ok := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 {
		return ErrStartLine
	}
	if !ValidToken(method) {
		return ErrMethod
	}
	r.Method = method
	if !ValidTarget(target) {
		return ErrTarget
	}
	r.Path = target
	minor, err := parseVersion(version)
	r.Minor = minor
	return err
}

func parseVersion(v string) (minor int, err error) {
	switch {
	case v == "HTTP/1.1":
		return 1, nil
	case v == "HTTP/1.0":
		return 0, nil
	case len(v) == 8 && v[:5] == "HTTP/" && v[6] == '.':
		return 0, ErrVersion
	}
	return 0, ErrStartLine
}

// resolve brings target and Host to one authority and one path.
func (r *Request) resolve() error {
	switch {
	case r.hop.hosts > 1:
		return ErrHosts
	case r.hop.hosts == 0 && r.Minor > 0:
		return ErrNoHost
	case r.hop.hosts == 1 && !ValidHost(r.hop.host):
		return ErrHost
	}
	r.Authority = r.hop.host
	switch {
	case r.Method == "CONNECT":
		return ErrConnect
	case r.Path[0] == '/':
		return nil
	case r.Path == "*":
		if r.Method != "OPTIONS" {
			return ErrTarget
		}
		return nil
	}
	return r.absolute(r.Path)
}

// absolute takes a target in absolute form apart (RFC 9112 3.2.2). Host must say
// the same: whoever believes one of two different names can be deceived.
func (r *Request) absolute(target string) error {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || !EqualFold(scheme, "http") && !EqualFold(scheme, "https") {
		return ErrTarget
	}
	slash := strings.IndexAny(rest, "/?#")
	authority, path := rest, "/"
	if slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	}
	if !ValidHost(authority) || path[0] != '/' {
		return ErrTarget
	}
	if r.hop.hosts == 1 && !equalHosts(r.hop.host, authority) {
		return ErrHostMismatch
	}
	r.Scheme, r.Authority, r.Path = scheme, authority, path
	return nil
}

func equalHosts(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(a, b)
}
