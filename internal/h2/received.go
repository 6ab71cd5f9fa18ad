package h2

import "sync"

// received is a header section that arrived, pooled with the array of its
// fields. A queue of them is linked through next.
type received struct {
	Head
	next *received
}

// keepFields bounds the array that goes back to the pool.
const keepFields = 64

var receivedPool = sync.Pool{New: func() any {
	return &received{Head: Head{Fields: make([]Field, 0, 16)}}
}}

func newReceived() *received { return receivedPool.Get().(*received) }

// free returns r, which may be nil, to the pool.
func (r *received) free() {
	if r == nil || cap(r.Fields) > keepFields {
		return
	}
	fields := r.Fields
	clear(fields) // or the pool would keep their strings alive
	*r = received{Head: Head{Fields: fields[:0]}}
	receivedPool.Put(r)
}
