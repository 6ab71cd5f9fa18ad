// Package wire is sockets: one TCP connection, plain or under TLS, that never
// blocks who writes to it.
//
//  1. [Conn.Serve] is the reader. It runs on a goroutine of its own and works in
//     turns: read what has arrived, hand it to the [Receiver], run the turn's
//     batch, which resumes tasks and flushes what they wrote to. The whole loop
//     lives inside one syscall.RawConn.Read call, so that a turn costs one
//     readiness wait and one read, not a second read that finds nothing.
//  2. [Conn.Write] encrypts into a buffer below tls.Conn and offers all of it to
//     the socket in one write. What the socket does not take goes to a flusher
//     goroutine that exists only while there is something to flush. Above
//     64 KiB Write takes nothing until the flusher has made room: memory is
//     bounded, and a reader that forwards to a slow peer is never held up.
//     Alerts and key updates that crypto/tls writes while it reads go the same
//     way.
//  3. The descriptor is closed by whoever is the last to leave it. Closing it
//     inside the read callback would wait for itself, and closing a peer's from
//     another reader's turn could wait in a circle; so an abort only marks the
//     connection and wakes those inside.
//
// [Stream] makes a plain Conn a task.Stream: it adds a read buffer with a bound,
// at which reading stops, and output that is flushed once per turn.
package wire
