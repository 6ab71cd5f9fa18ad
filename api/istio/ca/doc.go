// Package ca holds Istio's certificate service (protobuf package istio.v1.auth): how a workload has its key certified. Names
// and numbers are those of Istio, so istiod, and whoever asks istiod, can be at the other end.
//
// The Go code is generated; `go -C tools/protogen run .` in the root of the repository makes it anew.
package ca
