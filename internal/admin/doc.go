// Package admin is how people and Kubernetes look into a running waypoint, on
// three ports: readiness for probes, metrics for Prometheus, and the admin port
// for whoever may see everything.
//
//   - [Readiness] is a set of named conditions; ready is who has no reason left
//     not to be.
//   - [StatusHandler], [MetricsHandler] and [Handler] are the handlers of the
//     three, each made from a list of pages that its index and docs/admin.md
//     show too.
//   - [Server] serves one of them, with timeouts, until its context ends.
//
// The admin port tells all, certificates' keys excepted, and changes the log
// level. It listens on the loopback address unless told otherwise, answers only
// to names of this machine, so that no page in a browser can reach it under a
// name of its own (DNS rebinding), and takes changes by POST from nowhere else.
package admin
