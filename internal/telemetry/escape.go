package telemetry

import "unicode/utf8"

// form is where a value is written. Escaping stands between what a client sends
// and those who read the log: nothing in a value can end its field or its line,
// or move a terminal's cursor.
type form uint8

const (
	// inText: outside of quotes a blank becomes an underscore, as Envoy does to
	// details, so that a line has as many fields as it should.
	inText form = 1 << iota
	// inQuotes: as in a Go string.
	inQuotes
	// inJSON: a JSON string without its quotes. Bytes that are not UTF-8 become
	// U+FFFD.
	inJSON
)

// plain holds the forms in which a byte stands for itself.
var plain = func() (t [256]form) {
	for c := byte(' '); c < 0x7f; c++ {
		if c != '"' && c != '\\' {
			t[c] = inText | inQuotes | inJSON
		}
	}
	t[' '] &^= inText
	return t
}()

// appendEscaped appends s. Characters that are not to be printed become \n, \t,
// \r, \xNN (a byte, in text) or \uNNNN.
func appendEscaped(b []byte, s string, as form) []byte {
	start := 0 // of what can be copied as it is
	for i := 0; i < len(s); {
		if plain[s[i]]&as != 0 {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		var size int
		b, size = appendRune(b, s[i:], as)
		i += size
		start = i
	}
	return append(b, s[start:]...)
}

// appendRune appends the first character of s, which is not plain, and returns
// its size in s.
func appendRune(b []byte, s string, as form) ([]byte, int) {
	if s[0] < utf8.RuneSelf {
		return appendASCII(b, s[0], as), 1
	}
	switch r, size := utf8.DecodeRuneInString(s); {
	case size == 1 && as == inJSON:
		return appendU(b, utf8.RuneError), 1
	case size == 1:
		return appendX(b, s[0]), 1
	case hidden(r):
		return appendU(b, r), size
	default:
		return append(b, s[:size]...), size
	}
}

func appendASCII(b []byte, c byte, as form) []byte {
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
	if as == inJSON {
		return appendU(b, rune(c))
	}
	return appendX(b, c)
}

// hidden reports whether a rune outside of ASCII must not be written as it is: a
// control character, a separator that some readers take for the end of a line,
// or one that turns the direction of text. All of them are below 0x10000.
func hidden(r rune) bool {
	return r < 0xa0 || r == 0xfeff ||
		0x200e <= r && r <= 0x200f || 0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
}

const hexDigits = "0123456789abcdef"

func appendX(b []byte, c byte) []byte {
	return append(b, '\\', 'x', hexDigits[c>>4], hexDigits[c&0xf])
}

func appendU(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}
