// Package tunnel lets a program enter the mesh without a node proxy: it accepts
// local TCP connections, and carries each in an HBONE stream to a waypoint.
//
// A connection is a relay of two streams in one task, the half-close of each side
// being passed on. Where it goes is fixed by the port it came in at (a forward), or
// asked of the program by SOCKS5. A target that the waypoint refuses ends the
// connection; SOCKS clients are told why in their reply, and the log says it in any
// case, since a plain TCP client cannot be told. Streams share tunnels, which are
// opened when they are needed: a waypoint that is gone and comes back needs no
// restart here.
package tunnel
