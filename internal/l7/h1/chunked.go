package h1

import "bytes"

const (
	// maxChunkLine bounds a chunk's size with its extensions, which nobody
	// uses but who pads requests.
	maxChunkLine = 256
	// maxSizeDigits: 15 hexadecimal digits cannot overflow.
	maxSizeDigits = 15
)

type chunkState uint8

const (
	inSize chunkState = iota
	inData
	afterData
	inTrailers
	chunksDone
)

// Chunks decodes the chunked transfer coding from bytes that arrive in pieces.
// The zero value is ready once MaxTrailers is set.
type Chunks struct {
	// MaxTrailers and Limits bound the trailer section in bytes and fields.
	MaxTrailers int
	Limits      Limits
	// Trailers are the fields after the last chunk that may be trailers.
	Trailers Header

	state chunkState
	left  int64
	scan  Scanner
	head  head // backs Trailers
}

// Reset makes c ready for another body and keeps its memory.
func (c *Chunks) Reset(maxTrailers int, limits Limits) {
	c.MaxTrailers, c.Limits = maxTrailers, limits
	c.state, c.left, c.scan = inSize, 0, Scanner{}
	c.Trailers.Reset()
	c.head.Release()
}

// Done reports whether the body has ended and Trailers are complete.
func (c *Chunks) Done() bool { return c.state == chunksDone }

// Next looks at p, which begins where the last call's consumed bytes ended. skip
// bytes of p are framing; the data bytes behind them belong to the body. The
// caller consumes both. With neither, and not Done, p holds too little.
func (c *Chunks) Next(p []byte) (skip, data int, err error) {
	for {
		n, err := 0, error(nil)
		switch c.state {
		case inData:
			data = int(min(int64(len(p)-skip), c.left))
			c.left -= int64(data)
			if c.left == 0 {
				c.state = afterData
			}
			return skip, data, nil
		case inSize:
			n, err = c.size(p[skip:])
		case afterData:
			n, err = c.afterData(p[skip:])
		case inTrailers:
			n, err = c.trailers(p[skip:])
		}
		if n == 0 || err != nil {
			return skip, 0, err
		}
		skip += n
	}
}

// size reads a chunk-size line: digits, then nothing or an extension.
func (c *Chunks) size(p []byte) (int, error) {
	end := bytes.IndexByte(p[:min(len(p), maxChunkLine)], '\n')
	if end < 0 {
		if len(p) >= maxChunkLine {
			return 0, ErrChunk
		}
		return 0, nil
	}
	if end < 2 || p[end-1] != '\r' {
		return 0, ErrChunk
	}
	line := p[:end-1]
	digits := 0
	var n int64
	for ; digits < len(line); digits++ {
		d := unhex(line[digits])
		if d < 0 {
			break
		}
		n = n<<4 | int64(d)
	}
	if digits == 0 || digits > maxSizeDigits {
		return 0, ErrChunk
	}
	if ext := line[digits:]; len(ext) > 0 && (ext[0] != ';' || !ValidValue(view(ext))) {
		return 0, ErrChunk
	}
	c.left, c.state = n, inData
	if n == 0 {
		c.state = inTrailers
	}
	return end + 1, nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (c *Chunks) afterData(p []byte) (int, error) {
	switch {
	case len(p) > 0 && p[0] != '\r', len(p) > 1 && p[1] != '\n':
		return 0, ErrChunk
	case len(p) < 2:
		return 0, nil
	}
	c.state = inSize
	return 2, nil
}

func (c *Chunks) trailers(p []byte) (int, error) {
	n, err := c.scan.Scan(p, c.MaxTrailers)
	if n == 0 || err != nil {
		return 0, err
	}
	if n > 2 {
		c.head.load(p[:n])
		c.head.Minor = 1
		if err := c.head.parseFields(c.head.buf[:n], c.Limits); err != nil {
			return 0, err
		}
		c.head.DelFunc(func(name string) bool { return !MayTrail(name) })
		c.Trailers.CopyFrom(&c.head.Header)
	}
	c.state = chunksDone
	return n, nil
}

// MayTrail reports whether the field may stand in a trailer section. Those that
// route, frame, authenticate or describe the content may not (RFC 9110 6.5.1):
// who merges trailers into the header would act on them after they were checked.
func MayTrail(name string) bool {
	switch name {
	case "authorization", "cache-control", "content-encoding", "content-length", "content-range", "content-type",
		"cookie", "expect", "host", "if-match", "if-none-match", "max-forwards", "proxy-authorization", "range",
		"set-cookie", "trailer", "upgrade", "www-authenticate", "proxy-authenticate", "age", "date", "expires", "location", "vary":
		return false
	}
	return true
}
