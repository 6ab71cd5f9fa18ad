// Package e2e tests the controller against a real API server: etcd and
// kube-apiserver as test/meshlab builds them, on loopback ports, with RBAC on. The
// controller is the program as it is shipped, with the rights of
// deployments/manifests and no other.
//
// `make e2e` runs it. Without WAYPOINT_E2E_BIN, the folder of etcd and
// kube-apiserver, the tests are skipped; WAYPOINT_CONTROLLER is the controller.
package e2e
