package route

import "strings"

// scratchSize is how long a header of several lines, or an escaped query
// parameter, may be before looking at it allocates.
const scratchSize = 256

// parameter returns the value of the first query parameter of that name, both
// unescaped. The Gateway API leaves open which of several counts; the first does
// in all implementations. A value that had to be unescaped is in scratch.
func parameter(query, name string, scratch []byte) (value string, unescaped []byte, ok bool) {
	for pair, rest := nextPair(query); pair != "" || rest != ""; pair, rest = nextPair(rest) {
		k, v := cutParameter(pair)
		if !isNamed(k, name, scratch) {
			continue
		}
		if !isEscaped(v) {
			return v, nil, true
		}
		return "", unescape(v, scratch), true
	}
	return "", nil, false
}

func isNamed(escaped, name string, scratch []byte) bool {
	if !isEscaped(escaped) {
		return escaped == name
	}
	return string(unescape(escaped, scratch)) == name
}

func nextPair(query string) (pair, rest string) {
	pair, rest, _ = strings.Cut(query, "&")
	return pair, rest
}

func cutParameter(pair string) (name, value string) {
	name, value, _ = strings.Cut(pair, "=")
	return name, value
}

func isEscaped(s string) bool {
	return strings.IndexByte(s, '%') >= 0 || strings.IndexByte(s, '+') >= 0
}

// unescape appends to dst a part of a query, decoded as forms are, "+" to space
// included. What is not a valid escape stays as it is.
func unescape(s string, dst []byte) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '+':
			dst = append(dst, ' ')
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			dst = append(dst, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
