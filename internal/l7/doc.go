// Package l7 forwards HTTP: it reads requests out of the streams of tunnels,
// has them decided, and passes them to endpoints and the answers back, whatever
// version either side speaks.
//
// # From a stream to an exchange
//
// [Forwarder.Serve] takes over a stream. The first bytes tell whether HTTP/1 or
// HTTP/2 is spoken on it. An HTTP/1 connection (conn) is its own waker while it
// is idle, and then owns no goroutine, coroutine or buffer; a request starts a
// task, which serves what is at hand and goes. Of an HTTP/2 connection (h2Server)
// every stream is a request, and a task.
//
// # The exchange
//
// An exchange is one request and its response, as straight-line code that runs in
// that task: read the head, bring the path to its one form, decide (package
// decide), apply the request filters, choose an endpoint and connect, send, pass
// the response back, record. It sees the two sides through the interfaces
// downstream and upstreamSide, behind which are HTTP/1 (h1Down, h1Up) and HTTP/2
// (h2Down, h2Up), so that any pair of versions works; heads are kept in terms
// that all versions share (request, response).
//
// Bodies are two pumps driven by arrival, not one after the other: a response may
// begin before the request has ended. Nothing is buffered beyond the windows of
// the streams, but for 16 KiB an HTTP/1 writer and the first 64 KiB of a body
// that may have to be sent again.
//
// # When an attempt fails
//
// A failure says whether anything can have reached an application. If not, the
// request is sent again, to another endpoint if there is one. If it can, only what
// is safe by its method, or what the route asks for, is sent again.
//
// # Memory
//
// Exchanges are pooled with all their buffers. Strings of a head are views of
// these; whoever keeps one beyond the exchange has to clone it.
package l7
