// Package ca is the controller's own certificate authority. It signs what replicas
// serve with: configuration to waypoints, admission to the API server. Workloads
// get nothing from it.
//
// It lives in one Secret, as a [State]: the root that signs, the root that will
// sign next, and all roots that are to be trusted. Rotation goes by overlap: a new
// root is trusted for a day before it signs, since it takes a while until every
// waypoint has heard of it, and an old one is trusted until it expires. [Rotate] is
// pure; the leader writes what it says ([Keeper]), every replica follows the Secret
// and issues itself a certificate from it ([Issuer]).
package ca
