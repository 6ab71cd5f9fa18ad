// Package authz decides whether a connection or request is allowed.
//
// A [Policy] is the definition: plain data with the fields of Istio's
// AuthorizationPolicy. [Compile] turns the policies of one destination into an
// [Engine], and [Engine.Check] is pure: facts in, [Decision] out, without I/O,
// clock or allocation.
//
// Every field of a policy becomes one check: an attribute of the request, and
// the values it is compared with. A rule is a conjunction of checks. Rules that
// can only match certain peers or certain paths are found by hash, so that the
// cost of a request follows the rules that concern it.
//
// # What is uncertain counts against the request
//
// A header may come as several lines or as one list, a host with or without its
// port. Where two readings are possible, a field that restricts (values of DENY,
// notValues of ALLOW) holds if any reading matches, and a field that opens
// (values of ALLOW, notValues of DENY) holds only if the whole value matches.
// What cannot be compiled denies.
package authz
