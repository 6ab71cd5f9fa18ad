package h2

import (
	"strconv"
	"strings"
)

// What a byte may be part of.
const (
	inName  = 1 << iota // a field name as HTTP/2 writes it: a token in lower case
	inToken             // a token (RFC 9110 section 5.6.2)
	inValue             // a field value, obs-text included
	inURI               // :path and :authority: visible ASCII
)

var octets = func() (table [256]uint8) {
	for i := range table {
		c := byte(i)
		if c == '\t' || c >= ' ' && c != 0x7f {
			table[i] |= inValue
		}
		if c > ' ' && c < 0x7f {
			table[i] |= inURI
		}
		lower := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
		if lower {
			table[i] |= inName | inToken
		}
		if c >= 'A' && c <= 'Z' {
			table[i] |= inToken
		}
	}
	return table
}()

// all reports whether every byte of s is of that kind.
func all(s string, kind uint8) bool {
	for i := range len(s) {
		if octets[s[i]]&kind == 0 {
			return false
		}
	}
	return true
}

// validValue applies RFC 9113 section 8.2.1, and refuses the other control
// characters too, as RFC 9110 section 5.5 wants.
func validValue(v string) bool {
	if v == "" {
		return true
	}
	return v[0] > ' ' && v[len(v)-1] > ' ' && all(v, inValue)
}

// connectionSpecific reports whether a field belongs to one HTTP/1.1 connection
// and so must not be here (RFC 9113 section 8.2.2).
func connectionSpecific(name string) bool {
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// checkField returns what is wrong with a regular field, or "".
func checkField(name, value string) string {
	switch {
	case name == "" || !all(name, inName):
		return "field name " + strconv.Quote(name) + " is not a token in lower case"
	case connectionSpecific(name):
		return "field " + name + " belongs to HTTP/1.1 connections"
	case name == "te" && value != "trailers":
		return "field te may only be trailers"
	case !validValue(value):
		return "field " + name + " has a forbidden character or outer white space"
	}
	return ""
}

// checkRequest returns what is wrong with the pseudo-header fields of a request
// (RFC 9113 section 8.3.1, RFC 8441 section 4), or "".
func checkRequest(h *Head, seen pseudoSet, extendedConnect bool) string {
	switch {
	case !seen.has(pseudoMethod) || h.Method == "" || !all(h.Method, inToken):
		return ":method is missing or not a token"
	case !all(h.Authority, inURI) || strings.IndexByte(h.Authority, '@') >= 0:
		return ":authority has a forbidden character"
	case seen.has(pseudoProtocol) && (h.Method != "CONNECT" || !extendedConnect):
		return ":protocol without extended CONNECT"
	case h.Method == "CONNECT" && !seen.has(pseudoProtocol):
		return checkConnect(h, seen)
	case seen.has(pseudoProtocol) && (!seen.has(pseudoAuthority) || !all(h.Protocol, inToken) || h.Protocol == ""):
		return "extended CONNECT without :authority, or :protocol is not a token"
	case !seen.has(pseudoScheme) || !validScheme(h.Scheme):
		return ":scheme is missing or not a scheme"
	case !seen.has(pseudoPath) || !validPath(h):
		return ":path is missing, empty, not absolute or has a forbidden character"
	}
	return ""
}

// checkConnect applies RFC 9113 section 8.5.
func checkConnect(h *Head, seen pseudoSet) string {
	if seen.has(pseudoScheme) || seen.has(pseudoPath) || h.Authority == "" || !seen.has(pseudoAuthority) {
		return "CONNECT must have :authority, and neither :scheme nor :path"
	}
	return ""
}

func validScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || strings.IndexByte("0123456789+-.", c) < 0) {
			return false
		}
	}
	return s != ""
}

func validPath(h *Head) bool {
	if h.Path == "*" {
		return h.Method == "OPTIONS"
	}
	return strings.HasPrefix(h.Path, "/") && all(h.Path, inURI)
}

// setHost settles the authority of a request between :authority and Host. They
// must agree (RFC 9113 section 8.3.1).
func setHost(h *Head, seen pseudoSet, host string) string {
	switch {
	case !all(host, inURI) || strings.IndexByte(host, '@') >= 0:
		return "host has a forbidden character"
	case !seen.has(pseudoAuthority):
		h.Authority = host
	case !strings.EqualFold(h.Authority, host):
		return ":authority and host differ"
	}
	return ""
}

// parseLength reads a Content-Length (RFC 9110 section 8.6): digits, nothing else.
func parseLength(v string) (int64, bool) {
	if v == "" || len(v) > 18 {
		return 0, false
	}
	var n int64
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(v[i]-'0')
	}
	return n, true
}

// parseStatus reads a :status: three digits, 100 or more.
func parseStatus(v string) (int, bool) {
	n, ok := parseLength(v)
	return int(n), ok && len(v) == 3 && n >= 100
}
