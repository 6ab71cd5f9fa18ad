package telemetry

import "unicode/utf8"

// The two escapers stand between what a client sends and those who read the log:
// nothing in a value can end its field or its line, or move a terminal's cursor.

const hexDigits = "0123456789abcdef"

// appendText appends s for a text line. Quotes and backslashes are escaped as in
// a Go string, other characters that are not to be printed as \n, \t, \r, \xNN
// (bytes) or \uNNNN. Outside of quotes a blank becomes an underscore, as Envoy
// does to details, so that a line has as many fields as it should.
func appendText(b []byte, s string, quoted bool) []byte {
	start := 0 // of what can be copied as it is
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c > ' ' && c != '"' && c != '\\' && c != 0x7f || c == ' ' && quoted {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendTextByte(b, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if !hidden(r, size) {
			i += size
			continue
		}
		b = append(b, s[start:i]...)
		if size == 1 {
			b = append(b, '\\', 'x', hexDigits[c>>4], hexDigits[c&0xf])
		} else {
			b = appendU(b, r)
		}
		i += size
		start = i
	}
	return append(b, s[start:]...)
}

func appendTextByte(b []byte, c byte) []byte {
	switch c {
	case ' ':
		return append(b, '_')
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'x', hexDigits[c>>4], hexDigits[c&0xf])
}

// appendJSON appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendJSONByte(b, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if !hidden(r, size) {
			i += size
			continue
		}
		b = append(b, s[start:i]...)
		b = appendU(b, r) // U+FFFD for a byte that is not UTF-8
		i += size
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

func appendJSONByte(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return appendU(b, rune(c))
}

// hidden reports whether a rune outside of ASCII must not be written as it is:
// no rune at all, a control character of the second block, a separator that some
// readers take for the end of a line, or one that turns the direction of text.
func hidden(r rune, size int) bool {
	switch {
	case size == 1, r < 0xa0:
		return true
	case r == 0x2028, r == 0x2029, r == 0xfeff, 0x200e <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return true
	}
	return false
}

// appendU appends \uNNNN. All hidden runes are below 0x10000.
func appendU(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}
