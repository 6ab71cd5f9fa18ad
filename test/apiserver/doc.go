// Package apiserver runs a Kubernetes API server on loopback with our controller
// beside it, for tests and benchmarks that need no pods: etcd, kube-apiserver and
// waypoint-controller are processes on free ports, as they are shipped, and the
// API server's RBAC is on. Who writes what kubelets and kube-controller-manager
// would is the caller.
package apiserver
