package route

// charClass is what NormalizePath makes of a byte.
type charClass uint8

const (
	plain charClass = iota
	slash
	backslash
	percent
	high    // not ASCII
	invalid // control characters, space, "#": never part of a target
)

var class = func() (t [256]charClass) {
	for c := range t {
		switch {
		case c <= ' ' || c == 0x7f || c == '#':
			t[c] = invalid
		case c >= 0x80:
			t[c] = high
		}
	}
	t['/'], t['\\'], t['%'] = slash, backslash, percent
	return t
}()

// isUnreserved: RFC 3986 section 2.3.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}

func appendEscape(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '%', digits[c>>4], digits[c&15])
}
