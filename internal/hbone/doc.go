// Package hbone is byte streams in mutual-TLS HTTP/2 CONNECT tunnels, both ways.
//
// A tunnel is one TLS connection between two proxies that proved who they are.
// Each CONNECT request on it is a [Stream]: a task.Stream that ends each
// direction on its own, as TCP does.
//
//   - [Server] turns an accepted connection into streams: handshake, identity of
//     the peer, target of each CONNECT. It hands every stream to a [Handler],
//     which answers it with Accept or Reject. Connections are ended in order: a
//     GOAWAY that asks for no more, and a second one that says which stream was
//     the last, so that no stream under way is lost.
//   - [Dialer] opens streams to other proxies. It keeps tunnels per address and
//     accepted identities, dials one at a time for each, gives no stream to a
//     tunnel that was told to go away, and says of every failure whether the
//     destination can have seen anything.
//
// What a peer says of itself in header fields ([Baggage], [Forwarded]) is for
// telemetry. Identity is what TLS proved.
package hbone
