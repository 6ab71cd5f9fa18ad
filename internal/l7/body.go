package l7

import (
	"errors"
	"io"

	"github.com/waypoint-mesh/waypoint/internal/l7/h1"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// incoming is the body of a message while it is received, whatever the version.
type incoming interface {
	// next returns bytes that have arrived: a view until consume or the next
	// Park. Without bytes, the error tells: nil, more may come; io.EOF, the body
	// is complete and so are its trailers; else why it broke.
	next(b *task.Batch) ([]byte, error)
	// consume drops n of the bytes that next returned.
	consume(b *task.Batch, n int)
	// trailers are those of a complete body.
	trailers() []h1.Field
}

// outgoing is the body of a message while it is sent.
type outgoing interface {
	// send takes as much of p as it can. Less than all means: go on after the
	// next wake, with the same bytes.
	send(b *task.Batch, p []byte) (int, error)
	// finish ends the body. False means: call it again after the next wake.
	finish(b *task.Batch, trailers []h1.Field) (bool, error)
	// flush hands on what send and the head have left in our buffer, and reports
	// whether that was all of it. Call it before parking.
	flush(b *task.Batch) (bool, error)
}

// The limits of what an HTTP/1 writer holds back.
const (
	// directAbove is the size from which body bytes are not worth a copy to
	// travel with what is around them.
	directAbove = 4 << 10
	// maxPending bounds what waits for the stream to take more.
	maxPending = 16 << 10
)

var (
	errBodyTooLong  = errors.New("more body than its content-length says")
	errBodyTooShort = errors.New("less body than its content-length says")
)

// h1Reader receives the body of an HTTP/1 message.
type h1Reader struct {
	stream task.Stream
	kind   h1.BodyKind
	left   int64 // of a FixedBody
	avail  int   // of a ChunkedBody: bytes at hand that belong to it
	chunks h1.Chunks
}

func (r *h1Reader) reset(s task.Stream, f h1.Framing, l Limits) {
	r.stream, r.kind, r.left, r.avail = s, f.Kind, f.Length, 0
	if f.Kind == h1.ChunkedBody {
		r.chunks.Reset(l.MaxHeaderBytes, l.h1())
	}
}

func (r *h1Reader) next(b *task.Batch) ([]byte, error) {
	if r.kind == h1.NoBody || r.kind == h1.FixedBody && r.left == 0 {
		return nil, io.EOF
	}
	ended := r.stream.ReadErr()
	p := r.stream.Peek()
	switch {
	case r.kind == h1.ChunkedBody:
		return r.nextChunk(b, p, ended)
	case len(p) == 0 && r.kind == h1.UntilClose:
		return nil, ended
	case len(p) == 0:
		return nil, truncated(ended)
	case r.kind == h1.FixedBody:
		return p[:min(int64(len(p)), r.left)], nil
	}
	return p, nil
}

func (r *h1Reader) nextChunk(b *task.Batch, p []byte, ended error) ([]byte, error) {
	if r.avail == 0 && !r.chunks.Done() {
		skip, data, err := r.chunks.Next(p)
		if skip > 0 {
			r.stream.Discard(b, skip)
			p = r.stream.Peek()
		}
		if err != nil {
			return nil, err
		}
		r.avail = data
	}
	switch {
	case r.avail > 0:
		return p[:r.avail], nil
	case r.chunks.Done():
		return nil, io.EOF
	}
	return nil, truncated(ended)
}

// truncated is what the end of the stream means before the end of the body.
func truncated(ended error) error {
	if errors.Is(ended, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return ended
}

func (r *h1Reader) consume(b *task.Batch, n int) {
	r.stream.Discard(b, n)
	switch r.kind {
	case h1.FixedBody:
		r.left -= int64(n)
	case h1.ChunkedBody:
		r.avail -= n
	}
}

func (r *h1Reader) trailers() []h1.Field {
	if r.kind != h1.ChunkedBody {
		return nil
	}
	return r.chunks.Trailers.Fields
}

// h1Writer sends one HTTP/1 message. Head, framing and small pieces of body are
// collected and leave with one Write.
type h1Writer struct {
	stream task.Stream
	kind   h1.BodyKind
	left   int64 // of a FixedBody
	out    []byte
	ended  bool
}

func (w *h1Writer) reset(s task.Stream) {
	w.stream, w.kind, w.left, w.ended = s, h1.NoBody, 0, false
	if cap(w.out) > 2*maxPending {
		w.out = nil
	}
	w.out = w.out[:0]
}

// frame says how the body that follows the head is delimited.
func (w *h1Writer) frame(f h1.Framing) { w.kind, w.left = f.Kind, f.Length }

func (w *h1Writer) send(b *task.Batch, p []byte) (int, error) {
	if w.kind == h1.NoBody {
		return len(p), nil // to a HEAD, say: there is nowhere to put it
	}
	if w.kind == h1.FixedBody && int64(len(p)) > w.left {
		return 0, errBodyTooLong
	}
	for sent := 0; ; {
		n, err := w.sendSome(b, p[sent:])
		sent += n
		if err != nil || n == 0 || sent == len(p) {
			return sent, err
		}
	}
}

// sendSome takes a part of p; nothing only if the stream is full.
func (w *h1Writer) sendSome(b *task.Batch, p []byte) (int, error) {
	if len(w.out)+len(p) >= maxPending || len(p) >= directAbove {
		if done, err := w.flush(b); !done || err != nil {
			return 0, err
		}
	}
	n, err := len(p), error(nil)
	switch {
	case w.kind == h1.ChunkedBody:
		return w.sendChunk(p), nil
	case len(p) >= directAbove:
		n, err = w.stream.Write(b, p)
	default:
		w.out = append(w.out, p...)
	}
	w.left -= int64(n)
	return n, err
}

func (w *h1Writer) sendChunk(p []byte) int {
	p = p[:min(len(p), maxPending)]
	w.out = h1.AppendChunkSize(w.out, len(p))
	w.out = append(w.out, p...)
	w.out = append(w.out, "\r\n"...)
	return len(p)
}

func (w *h1Writer) finish(b *task.Batch, trailers []h1.Field) (bool, error) {
	if !w.ended {
		w.ended = true
		switch {
		case w.kind == h1.ChunkedBody:
			w.out = h1.AppendLastChunk(w.out, trailers)
		case w.kind == h1.FixedBody && w.left > 0:
			return false, errBodyTooShort
		}
	}
	return w.flush(b)
}

func (w *h1Writer) flush(b *task.Batch) (bool, error) {
	if len(w.out) == 0 {
		return true, nil
	}
	n, err := w.stream.Write(b, w.out)
	w.out = w.out[:copy(w.out, w.out[n:])]
	return len(w.out) == 0, err
}
