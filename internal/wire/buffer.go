package wire

import "sync"

// maxKeep bounds the buffers that are kept for reuse: one that grew beyond it in
// a burst is left to the garbage collector.
const maxKeep = 128 << 10

// buffer is a byte queue that is lent by a pool while it holds something, so
// that an idle connection owns none.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

func putBuffer(b *buffer) {
	if cap(b.b) > maxKeep {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}

// readSize holds two TLS records, and is what a plain read asks for.
const readSize = 32 << 10

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}
