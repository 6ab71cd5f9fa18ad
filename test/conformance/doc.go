// Package conformance holds programs and libraries of others against the real
// thing: bin/waypoint as `waypoint run`, and clients that enter through
// `waypoint tunnel`, each a process of its own. Node proxies and applications are
// those of package meshtest, in the process of the test.
//
// `make conformance` builds what is needed and names it in the environment:
//
//	WAYPOINT  the program under test; without it every test here is skipped
//	H2SPEC    h2spec, the HTTP/2 conformance tester
//
// curl, nghttp and h2load are asked for in PATH. A tool that is not there skips its
// test and says so.
package conformance
