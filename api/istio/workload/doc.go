// Package workload holds Istio's workload discovery types (protobuf package istio.workload): what a control plane tells
// ztunnels, and Waypoint, about the services and workloads of a mesh. Names and numbers are those of Istio, so istiod and
// ztunnel can be at the other end.
//
// The Go code is generated; `go -C tools/protogen run .` in the root of the repository makes it anew.
package workload
