package authz

import (
	"strings"
	"unsafe"
)

// matchHost compares a host as sent. Wide also takes it without its port and
// final dot, as the same site answers to all of them.
func matchHost(v *values, host string, wide bool) bool {
	if v.has(host) {
		return true
	}
	if !wide {
		return false
	}
	if bare := bareHost(host); bare != host {
		return v.has(bare)
	}
	return false
}

// bareHost cuts a port and a final dot off a host.
func bareHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") &&
		(strings.IndexByte(host, ':') == i || host[0] == '[') {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

// joinSize is how long the lines of one header may be together before joining
// them allocates. Policies look at short values.
const joinSize = 512

// matchHeader compares a header that may come as several lines, each of which
// may be a list. RFC 9110 section 5.2: lines of one name are one list, joined
// by commas. So "x: a" and "x: b" are treated as "x: a,b" is.
func (c *check) matchHeader(r *Request) bool {
	if c.header == "host" {
		return matchHost(&c.values, r.Host, c.wide)
	}
	lines, first := 0, ""
	for i := range r.Headers {
		if r.Headers[i].Name != c.header {
			continue
		}
		lines++
		if lines == 1 {
			first = r.Headers[i].Value
		}
		if c.wide && matchList(&c.values, r.Headers[i].Value) {
			return true
		}
	}
	switch {
	case lines == 0:
		return false
	case lines == 1:
		return !c.wide && c.values.has(first)
	}
	var scratch [joinSize]byte
	joined := join(scratch[:0], r.Headers, c.header)
	// A view of scratch, which has does not keep.
	return c.values.has(unsafe.String(unsafe.SliceData(joined), len(joined)))
}

// matchList reports whether line or an element of the list in it matches.
func matchList(v *values, line string) bool {
	if v.has(line) {
		return true
	}
	for rest, more := line, true; more; {
		var elem string
		elem, rest, more = strings.Cut(rest, ",")
		if elem = strings.Trim(elem, " \t"); len(elem) != len(line) && v.has(elem) {
			return true
		}
	}
	return false
}

// join appends the lines of the header name to dst, as one list. Cookies are
// joined in their own way (RFC 9113 section 8.2.3).
func join(dst []byte, headers []Field, name string) []byte {
	sep := ","
	if name == "cookie" {
		sep = "; "
	}
	n := 0
	for i := range headers {
		if headers[i].Name != name {
			continue
		}
		if n++; n > 1 {
			dst = append(dst, sep...)
		}
		dst = append(dst, headers[i].Value...)
	}
	return dst
}
