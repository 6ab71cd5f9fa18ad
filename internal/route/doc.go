// Package route decides which rule of which route a request follows.
//
// A [Rule] is the definition: plain, printable data. [NewTable] compiles the
// rules of one port into a [Table], whose Match is pure: facts in, rule out,
// without I/O, clock or allocation.
//
// # How a table finds a rule
//
// Every match of every rule becomes an entry, and all entries are ordered once by
// the precedence of the Gateway API, see byPrecedence. Exact paths and prefixes
// stand in a tree by path segment: a walk down the request's path ends at the
// longest one, and the way back up visits the shorter ones. What has no place in
// the tree (regular expressions, entries for any path) follows in one list. Where
// many entries share a place and differ by header or query parameter, they are
// filed by one such value. So the cost of a request follows the length of its
// path, not the number of routes.
//
// Everything else of a rule that is pure stands here, too, one feature per file:
// normalisation of paths, rewrites, locations of redirects, CORS, weights.
package route
