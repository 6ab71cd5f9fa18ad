// Package tunnel lets a program enter the mesh without a node proxy: it accepts
// local TCP connections, and carries each in an HBONE stream to a waypoint.
package tunnel
