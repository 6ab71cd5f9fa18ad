// Package gatewayapi runs the mesh tests of the Gateway API's conformance suite, as
// the suite's module has them, where no node proxy captures the connections of
// pods: against a waypoint in this process, in the tests of this package, and in a
// whole cluster, in those of test/e2e/mesh.
//
//	gatewayapi.Run(t, gatewayapi.Mesh{API: client, Dial: dial})
//
// How it is made:
//
//  1. The manifests, requests and judgement are the suite's, read from the module
//     cache. It makes its requests by exec of a program "client" in its pods. Here
//     exec ends in this process: [Run] makes the requests as that program would, on
//     connections that Dial opens as the pod's node proxy would.
//  2. The suite looks at little of a request: not at its path or host at the
//     application, not at the Location of a redirect, and not at the status of
//     routes. Run asserts that beside it.
//  3. In this package's tests the API is a client's fake with the controller's feed,
//     translators, discovery and status writer behind it, by delta xDS a whole
//     waypoint, and pods that are addresses of the loopback network. In the cluster
//     all that is real.
//
// What is not found out is what a real node proxy does. That a request to a Service
// goes to its waypoint, and one to a pod's address does not (MeshFrontend, "Send to
// pod IP"), Dial decides: in this package by itself, in the cluster by what istiod
// tells. With a real ztunnel the suite runs in test/meshlab.
package gatewayapi
