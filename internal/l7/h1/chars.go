package h1

import (
	"encoding/binary"
	"unsafe"
)

// token maps the bytes of a token (RFC 9110 5.6.2) to lower case, and all others
// to 0.
var token = func() (t [256]byte) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") {
		t[c] = c
	}
	for c := byte('A'); c <= 'Z'; c++ {
		t[c] = c + 'a' - 'A'
	}
	return t
}()

// inValue are the bytes of a field value: visible ones, obs-text, space and tab.
var inValue = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != 0x7f || c == '\t'
	}
	return t
}()

// inHost are the bytes of a host with its port: those of RFC 3986 reg-name and
// IP-literal, without userinfo.
var inHost = func() (t [256]bool) {
	for _, c := range []byte("-._~%!$&'()*+;=:[]0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

func all(t *[256]bool, s string) bool {
	for i := range len(s) {
		if !t[s[i]] {
			return false
		}
	}
	return true
}

// ValidToken reports whether s is a token, as methods and field names are.
func ValidToken(s string) bool {
	for i := range len(s) {
		if token[s[i]] == 0 {
			return false
		}
	}
	return s != ""
}

// ValidValue reports whether s can stand in a field value. It looks at eight bytes
// at a time, as values are most of a head.
func ValidValue(s string) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	p := unsafe.Slice(unsafe.StringData(s), len(s))
	for len(p) >= 8 {
		w := binary.LittleEndian.Uint64(p)
		del := w ^ 0x7f*ones
		// The top bit of a byte is set if it is below ' ', or DEL. A tab is let
		// off in the table.
		if ((w-' '*ones)&^w|(del-ones)&^del)&tops != 0 && !all(&inValue, view(p[:8])) {
			return false
		}
		p = p[8:]
	}
	return all(&inValue, view(p))
}

// ValidHost reports whether s can be a host with an optional port.
func ValidHost(s string) bool { return s != "" && all(&inHost, s) }

// ValidTarget reports whether s can stand in a request line: no space, no
// control character.
func ValidTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}

// view makes a string of p without copying it.
func view(p []byte) string { return unsafe.String(unsafe.SliceData(p), len(p)) }

// EqualFold compares s with lower, which is in lower case, ignoring the case of
// ASCII letters alone.
func EqualFold(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// trim takes optional white space off both ends.
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
