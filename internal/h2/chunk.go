package h2

import (
	"math/bits"
	"sync"
)

const (
	minClass = 11 // 2 KiB: a request head fits
	maxClass = 20 // 1 MiB: the largest window fits
)

// chunks pools buffers by powers of two. Idle streams and connections hold none.
var chunks [maxClass + 1]sync.Pool

// chunk is a pooled buffer; cap(b) is its size.
type chunk struct {
	b    []byte
	next *chunk
}

// newChunk returns an empty chunk with room for n bytes.
func newChunk(n int) *chunk {
	class := max(minClass, bits.Len(uint(max(n, 1)-1)))
	if class > maxClass {
		return &chunk{b: make([]byte, 0, n)}
	}
	if k, ok := chunks[class].Get().(*chunk); ok {
		return k
	}
	return &chunk{b: make([]byte, 0, 1<<class)}
}

// free returns k, which may be nil, to its pool.
func (k *chunk) free() {
	if k == nil {
		return
	}
	class := bits.Len(uint(cap(k.b) - 1))
	if class < minClass || class > maxClass || cap(k.b) != 1<<class {
		return
	}
	k.b, k.next = k.b[:0], nil
	chunks[class].Put(k)
}

// withRoom returns k, or a larger chunk in its place, that n bytes can be
// appended to. k may be nil.
func (k *chunk) withRoom(n int) *chunk {
	if k == nil {
		return newChunk(n)
	}
	if cap(k.b)-len(k.b) >= n {
		return k
	}
	bigger := newChunk(max(2*cap(k.b), len(k.b)+n))
	bigger.b = append(bigger.b, k.b...)
	k.free()
	return bigger
}
