// Package h1 is the HTTP/1.x codec (RFC 9112): pure functions on bytes, without
// I/O, and without allocation once the buffers of a head have grown.
//
//   - [Scanner] finds the end of a head in bytes that arrive in pieces. It looks
//     at each byte once, however they are cut.
//   - [Request] and [Response] parse a complete head. They copy it once into a
//     buffer of their own; every string of theirs is a view of that buffer and
//     is valid until the next Parse.
//   - The fields that concern the connection alone, or the framing, are taken out
//     and their meaning is kept ([Framing], Close, Upgrade). What is left in
//     [Header] is end to end: it can be passed on over any HTTP version.
//   - [Chunks] decodes the chunked coding, the Append functions encode.
//
// The parser is strict where leniency is how requests are smuggled: lines end in
// CRLF, there is no folding, no space before a colon, one meaning of the length.
// What is accepted is read by net/http in the same way, which a fuzz test holds.
package h1
