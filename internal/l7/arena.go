package l7

import "unsafe"

// arena holds the strings that are made for one exchange. When it outgrows its
// memory the strings made before stay in the old one, so none is ever moved.
type arena struct{ buf []byte }

// reset forgets all strings. Nobody may hold one any more.
func (a *arena) reset() {
	if cap(a.buf) > 8<<10 {
		a.buf = nil
	}
	a.buf = a.buf[:0]
}

// join concatenates parts into one string.
func (a *arena) join(parts ...string) string {
	start := len(a.buf)
	for _, p := range parts {
		a.buf = append(a.buf, p...)
	}
	return a.since(start)
}

// since returns what was appended to buf from start on.
func (a *arena) since(start int) string {
	p := a.buf[start:]
	return unsafe.String(unsafe.SliceData(p), len(p))
}
