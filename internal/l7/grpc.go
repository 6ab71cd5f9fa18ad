package l7

import (
	"strconv"
	"strings"
	"time"
)

// isGRPC reports whether the content type says gRPC (PROTOCOL-HTTP2,
// "Content-Type"). gRPC-Web is another protocol, whose errors are plain HTTP.
func isGRPC(r *request) bool {
	rest, ok := strings.CutPrefix(r.Get("content-type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// grpcCounter counts length-prefixed messages in a body as it passes, by their
// prefixes alone.
type grpcCounter struct {
	messages uint64
	left     uint64  // of the message that is passing
	prefix   [5]byte // compressed flag and length
	have     int     // bytes of the prefix
}

func (c *grpcCounter) count(p []byte) {
	for len(p) > 0 {
		if c.left > 0 {
			n := min(c.left, uint64(len(p)))
			c.left -= n
			p = p[n:]
			continue
		}
		n := copy(c.prefix[c.have:], p)
		c.have += n
		p = p[n:]
		if c.have == len(c.prefix) {
			c.have = 0
			c.messages++
			c.left = uint64(c.prefix[1])<<24 | uint64(c.prefix[2])<<16 | uint64(c.prefix[3])<<8 | uint64(c.prefix[4])
		}
	}
}

// grpcTimeout parses the field grpc-timeout: at most 8 digits and a unit. What
// is malformed sets no deadline here; the server will say what it thinks of it.
func grpcTimeout(v string) (time.Duration, bool) {
	if len(v) < 2 || len(v) > 9 {
		return 0, false
	}
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}
	unit, ok := units[v[len(v)-1]]
	n, err := strconv.ParseUint(v[:len(v)-1], 10, 32)
	if !ok || err != nil {
		return 0, false
	}
	const forever = 1<<63 - 1
	if d := time.Duration(n); d <= forever/unit {
		return d * unit, true
	}
	return forever, true
}
