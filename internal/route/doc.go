// Package route decides which rule of which route a request follows.
//
// A [Rule] is the definition: plain, printable data. [NewTable] compiles the
// rules of one port into a [Table], whose Match is pure: facts in, rule out,
// without I/O, clock or allocation.
package route
