// Package decide says what is to happen to one connection or request: which
// service it is for, whether it is allowed, and where it goes. It is pure: a
// snapshot and facts in, a verdict out, without I/O, clock or state.
//
//  1. [Address] or [Host] finds the [Destination] of a CONNECT.
//  2. [Connection] checks a connection whose inside is opaque, and [TCP] or
//     [TLS] choose where it goes.
//  3. [HTTP] checks one request, and chooses the rule it follows and the port
//     whose endpoints serve it, or the [Reply] that answers it.
package decide
