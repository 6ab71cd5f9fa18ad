// Package h2 is one HTTP/2 connection (RFC 9113), client or server, written as a
// push parser over any transport.
//
// How it works
//
//   - The transport's reader pushes bytes in with [Conn.Receive]. Frames are
//     parsed in place; only a frame that a read has cut is kept until its rest
//     arrives, and of DATA not even that: its pieces go to the stream at once.
//   - A [Stream] is a [task.Stream]: whoever reads or writes it never blocks and
//     is woken through its waker. An idle stream owns no goroutine and no buffer.
//   - What is written is appended as frames to the connection's output, which
//     [Conn.Flush] hands to the transport once at the end of a turn. There is no
//     writer goroutine. Stream id and header compression are taken under the same
//     lock that orders the output, so frames leave as they were numbered.
//   - Connection credit is returned when DATA arrives, stream credit when it is
//     discarded by its reader. A stream whose reader stalls costs at most its
//     window, and never stalls its neighbours.
//   - Whatever a peer can make grow has a bound: header bytes and fields, streams,
//     streams whose owner still works for a peer that reset them, output, and
//     the rate of frames that cost work without carrying any.
//
// The API in one view:
//
//	NewServer(t Transport, cfg Config, h Handler) *Conn
//	NewClient(t Transport, cfg Config, h Handler) *Conn
//	Ride(b, c *Conn, s task.Stream)                 // c's transport is s
//
//	(*Conn) Start(b)                                // sends preface and settings; once
//	(*Conn) Receive(b, p) error; Closed(b, err)     // a wire.Receiver
//	(*Conn) Flush(b); Depth() int                   // a task.Flusher
//	(*Conn) Open(b, *Head, endStream bool, w task.Waker) (*Stream, error)
//	(*Conn) Capacity() int                          // streams that may be opened now; 0 when draining or closed
//	(*Conn) Streams() int                           // open ones
//	(*Conn) Settled() bool; ConnectProtocol() bool  // the peer's settings came; they allow RFC 8441
//	(*Conn) Draining() bool; Err() error            // GOAWAY seen or sent; why it ended, nil while it lives
//	(*Conn) Drain(b); DrainFinal(b); Close(b, code, debug string)
//
//	(*Stream) Peek Discard ReadErr Write CloseWrite Abort SetWaker   // task.Stream
//	(*Stream) ID() uint32; Conn() *Conn
//	(*Stream) Head() *Head                          // request; on a client the response, interim ones first; nil: not yet
//	(*Stream) NextHead()                            // lets go of Head (its Fields go back to a pool); shows the next
//	(*Stream) Trailers() []Field                    // complete once ReadErr is io.EOF
//	(*Stream) WriteHead(b, *Head, endStream bool) error   // server; interim 1xx any number of times before the final one
//	(*Stream) WriteTrailers(b, []Field) error       // ends our side
//	(*Stream) Reset(b, ErrCode)                     // RST_STREAM
//	(*Stream) ResetCode() (code ErrCode, ok bool)   // what the peer reset it with
//	(*Stream) Unprocessed() bool
//	(*Stream) Done(b)                               // the owner lets go: resets what is open, frees buffers and the place
//
// A connection rides in a stream of another one through [Ride].
package h2
