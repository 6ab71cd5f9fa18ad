package node

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

var (
	endOfLine = []byte("\r\n")
	endOfHead = []byte("\r\n\r\n")
)

// DefaultSize is the size of an answer to a path that asks for none.
const DefaultSize = 1024

var (
	filler  = bytes.Repeat([]byte{'x'}, 256<<10)
	oneKiB  = append(responseHead(DefaultSize), filler[:DefaultSize]...)
	getRoot = []byte("GET / ")
)

func responseHead(size int64) []byte {
	head := []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: ")
	head = strconv.AppendInt(head, size, 10)
	return append(head, endOfHead...)
}

// serveHTTP1 answers requests until the client ends or sends what is none.
func serveHTTP1(t *task.Task, s task.Stream, authority string) {
	for {
		head, err := readHead(t, s)
		if err != nil {
			return
		}
		if err := answer(t, s, head, authority); err != nil {
			return
		}
	}
}

// readHead waits for a whole head and returns it, not yet discarded.
func readHead(t *task.Task, s task.Stream) ([]byte, error) {
	for seen := 0; ; {
		if err := task.ReadMore(t, s, seen); err != nil {
			return nil, err
		}
		p := s.Peek()
		if i := bytes.Index(p, endOfHead); i >= 0 {
			return p[:i+len(endOfHead)], nil
		}
		seen = len(p)
	}
}

func answer(t *task.Task, s task.Stream, head []byte, authority string) error {
	if bytes.HasPrefix(head, getRoot) {
		s.Discard(t.Batch(), len(head))
		return task.WriteAll(t, s, oneKiB)
	}
	size, body := wanted(head, authority)
	upload, _ := strconv.ParseInt(string(Value(head, "content-length")), 10, 64) // absent: nothing
	s.Discard(t.Batch(), len(head))
	if err := discard(t, s, upload); err != nil {
		return err
	}
	if err := task.WriteAll(t, s, responseHead(size)); err != nil {
		return err
	}
	if body != nil {
		return task.WriteAll(t, s, body)
	}
	return fill(t, s, size)
}

// wanted returns the size of the answer, and the answer itself where it is not
// filler.
func wanted(head []byte, authority string) (size int64, body []byte) {
	_, path, _ := bytes.Cut(head, []byte(" "))
	path, _, _ = bytes.Cut(path, []byte(" "))
	path, _, _ = bytes.Cut(path, []byte("?"))
	switch n, sized := sizeOf(string(path)); {
	case sized:
		return n, nil
	case string(path) == "/version":
		body = bytes.Clone(Value(head, "x-version"))
	case bytes.HasSuffix(path, []byte("/head")):
		body = append([]byte(authority+"\r\n"), head...)
	default:
		return DefaultSize, nil
	}
	return int64(len(body)), body
}

// Value returns the value of the first field called name in an HTTP/1.1 head, nil
// if it has none.
func Value(head []byte, name string) []byte {
	for line := range bytes.SplitSeq(head, endOfLine) {
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name) {
			return bytes.TrimSpace(line[len(name)+1:])
		}
	}
	return nil
}

// discard reads n bytes of a request's body.
func discard(t *task.Task, s task.Stream, n int64) error {
	for n > 0 {
		if err := task.ReadMore(t, s, 0); err != nil {
			return err
		}
		took := min(n, int64(len(s.Peek())))
		s.Discard(t.Batch(), int(took))
		n -= took
	}
	return nil
}

// fill writes n bytes.
func fill(t *task.Task, s task.Stream, n int64) error {
	for n > 0 {
		p := filler[:min(n, int64(len(filler)))]
		if err := task.WriteAll(t, s, p); err != nil {
			return err
		}
		n -= int64(len(p))
	}
	return nil
}
