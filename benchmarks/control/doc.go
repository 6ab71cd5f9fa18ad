// Package control measures the way from a Kubernetes API server to the data path
// of a waypoint: etcd, kube-apiserver, the controller and the waypoint are
// processes, as they are shipped.
//
//  1. A mesh is created: services with an endpoint each, routes on them, and
//     another namespace that the waypoint has nothing to do with.
//  2. The controller and the waypoint are started at once, until the waypoint is
//     ready, which it is with its whole configuration only.
//  3. A route is changed again and again. The clock runs from when a watch of the
//     benchmark's own shows the change to the first answer to a request through
//     the waypoint that shows it, too.
//  4. Endpoints in the other namespace come and go, 10 times a second. What the
//     waypoint gets of that is counted by a relay between it and the controller.
//  5. More Gateways are made, and the controller's memory is read again.
package control
