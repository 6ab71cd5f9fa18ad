// Package gateway makes running waypoints of Gateway objects: for each Gateway of
// a class that names our controller it applies a ServiceAccount, a Deployment, a
// Service and what else was asked for, and says on the Gateway how that went.
//
// What is applied is computed by [Render], which is pure: a Gateway, our settings
// and two ConfigMaps of strategic-merge overlays go in, whole objects come out.
// The [Reconciler] brings them to the API server by server-side apply, so that
// fields we do not name stay with whoever sets them: an autoscaler owns the number
// of replicas because Render does not speak of it.
//
// An object that is there already and has no owner reference to the very Gateway
// (by UID) is somebody else's. It is never touched; the Gateway's status names it.
package gateway
