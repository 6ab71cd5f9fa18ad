package h1

import "bytes"

// Scanner finds the end of a head: the empty line. The zero value is ready.
type Scanner struct {
	seen int // bytes looked at
	line int // where the current line begins
}

// Reset makes s ready for another head.
func (s *Scanner) Reset() { *s = Scanner{} }

// Started reports whether part of a head has been seen.
func (s *Scanner) Started() bool { return s.seen > 0 }

// Scan returns the length of the head at the beginning of p, its empty line
// included, or 0 if p does not hold all of it. p begins where it did in the last
// call, and may be longer. A head longer than limit bytes is ErrTooLarge, as soon
// as that is certain: a stream may hold no more than limit bytes before some are
// taken.
func (s *Scanner) Scan(p []byte, limit int) (int, error) {
	for {
		i := bytes.IndexByte(p[s.seen:], '\n')
		if i < 0 {
			s.seen = len(p)
			if s.seen >= limit {
				return 0, ErrTooLarge
			}
			return 0, nil
		}
		end := s.seen + i
		if end >= limit {
			return 0, ErrTooLarge
		}
		if end == s.line || p[end-1] != '\r' {
			return 0, ErrBareLF
		}
		empty := end == s.line+1
		s.seen, s.line = end+1, end+1
		if empty {
			return end + 1, nil
		}
	}
}

// LeadingEmptyLine reports whether p begins with an empty line, which servers
// ignore before a request (RFC 9112 2.2).
func LeadingEmptyLine(p []byte) bool { return len(p) >= 2 && p[0] == '\r' && p[1] == '\n' }
