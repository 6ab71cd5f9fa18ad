// Package h2 is one HTTP/2 connection (RFC 9113), client or server, written as a
// push parser over any transport. How it works:
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
// A connection begins with [Conn.Start], or with [Ride] in a stream of another one,
// which then carries it without a goroutine of its own. Streams come from
// [Conn.Open] on a client and through [Handler] on a server; their owner ends with
// [Stream.Done].
package h2
