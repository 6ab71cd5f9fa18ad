// Package kubectl is what `kubectl waypoint` does, apart from its flags: it makes,
// lists and deletes waypoints at an API server, says what became of them, and asks
// their pods.
//
//   - A [Cluster] is the API server as the user's kubeconfig reaches it, with the
//     user's rights. [Diagnose] tells what to do about the errors it gives.
//   - [Apply], [Cluster.Delete] and [Cluster.Wait] change Gateways. What is applied
//     is applied server-side under a field manager of our own and never by force,
//     so that nobody else's fields are changed.
//   - [Cluster.Status] has the controller's own code say what becomes of every
//     service, route and policy, on the objects as they are now. It needs no
//     controller that runs, and finds what it has not written yet.
//   - [Cluster.Admin] reaches the admin port of a pod, which listens on the pod's
//     loopback address alone, by a port-forward.
package kubectl
