// Package waypointv1 holds the layer 7 resources of a waypoint (protobuf package waypoint.v1): who it is, the routes and the
// policies of what it fronts. They are the only things, besides istio.workload addresses, that a proxy is configured with.
//
// The Go code is generated; `go -C tools/protogen run .` in the root of the repository makes it anew.
package waypointv1
