package route

import (
	"bytes"
	"errors"
	"strings"
)

// What is wrong with a request target. Each is answered 400.
var (
	ErrTargetForm    = errors.New(`the path does not start with "/"`)
	ErrTargetChar    = errors.New("the request target has a control character, a space or a #")
	ErrTargetEscape  = errors.New("the path has a percent sign that is not followed by two hexadecimal digits")
	ErrTargetEscape0 = errors.New("the path has an escaped NUL")
)

// NormalizeTarget splits a request target in origin form into its normalised
// path and its query, which is left as it is. OPTIONS may have the target "*"
// (RFC 9110 section 9.3.7).
func NormalizeTarget(method, target string) (path, query string, err error) {
	if target == "*" && method == "OPTIONS" {
		return target, "", nil
	}
	path, query, _ = strings.Cut(target, "?")
	for i := range len(query) {
		if class[query[i]] == invalid {
			return "", "", ErrTargetChar
		}
	}
	path, err = NormalizePath(path)
	return path, query, err
}

// JoinTarget puts a request target together again.
func JoinTarget(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// NormalizePath returns the one form of a path that policies, routes, metrics and
// the upstream all see:
//
//   - RFC 3986 section 6.2.2: escapes of unreserved characters are decoded, other
//     escapes get upper-case digits, dot segments are resolved. A dot segment may
//     be written with escapes, and with parameters ("..;x"), which some
//     applications cut off before they resolve it.
//   - Slashes are merged; "\" counts as "/". Escaped ones ("%2F", "%5C") stay
//     escaped, and are part of their segment for everybody.
//   - What is not ASCII is escaped.
//
// A path that is in this form already is returned as it is, without allocation.
func NormalizePath(path string) (string, error) {
	if path == "" || path[0] != '/' && path[0] != '\\' {
		return "", ErrTargetForm
	}
	for i := range len(path) {
		switch class[path[i]] {
		case plain:
		case slash:
			if i+1 < len(path) && (path[i+1] == '.' || class[path[i+1]] != plain) {
				return rewritePath(path)
			}
		default:
			return rewritePath(path)
		}
	}
	return path, nil
}

// rewritePath is NormalizePath for what is not plain at first sight.
func rewritePath(path string) (string, error) {
	var scratch [scratchSize]byte
	out := scratch[:0]
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch class[c] {
		case plain, slash:
			out = append(out, c)
		case backslash:
			out = append(out, '/')
		case high:
			out = appendEscape(out, c)
		case invalid:
			return "", ErrTargetChar
		case percent:
			if i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]) {
				return "", ErrTargetEscape
			}
			switch d := unhex(path[i+1])<<4 | unhex(path[i+2]); {
			case d == 0:
				return "", ErrTargetEscape0
			case isUnreserved(d):
				out = append(out, d)
			default:
				out = appendEscape(out, d)
			}
			i += 2
		}
	}
	out = resolveSegments(out)
	if string(out) == path {
		return path, nil
	}
	return string(out), nil
}

// resolveSegments merges slashes and removes dot segments, in place: what is
// written never overtakes what is read.
func resolveSegments(path []byte) []byte {
	out := path[:0]
	for at, more := 1, true; more; {
		seg := path[at:]
		end := bytes.IndexByte(seg, '/')
		if more = end >= 0; more {
			seg = seg[:end]
			at += end + 1
		}
		switch dots(seg) {
		case 1:
			seg = seg[:0]
		case 2:
			seg = seg[:0]
			if i := bytes.LastIndexByte(out, '/'); i >= 0 {
				out = out[:i]
			}
		}
		if len(seg) > 0 || !more {
			out = append(out, '/')
			out = append(out, seg...)
		}
	}
	return out
}

// dots is 1 for a segment that stands for its own directory, 2 for one that
// stands for the parent, else 0.
func dots(seg []byte) int {
	if i := bytes.IndexByte(seg, ';'); i >= 0 {
		seg = seg[:i]
	}
	switch string(seg) {
	case ".":
		return 1
	case "..":
		return 2
	}
	return 0
}

// NormalizePattern brings a pattern for paths, which may be a part of one, into
// the form of [NormalizePath] as far as single characters go.
func NormalizePattern(pattern string) string {
	out := make([]byte, 0, len(pattern))
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case class[c] == backslash:
			out = append(out, '/')
		case class[c] == high:
			out = appendEscape(out, c)
		case c == '%' && i+2 < len(pattern) && isHex(pattern[i+1]) && isHex(pattern[i+2]):
			if d := unhex(pattern[i+1])<<4 | unhex(pattern[i+2]); isUnreserved(d) {
				out = append(out, d)
			} else {
				out = appendEscape(out, d)
			}
			i += 2
		default:
			out = append(out, c)
		}
	}
	return string(out)
}
