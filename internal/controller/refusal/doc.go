// Package refusal knows what waypoints refuse of their configuration, on whichever
// replica of the controller they are connected to.
//
// A waypoint tells the one replica that it is connected to, and the leader alone
// writes statuses. So a replica that does not lead, while its waypoints refuse
// something, publishes that in a Lease of its own, which it renews; the leader
// follows the Leases. A Lease is what a replica that vanished leaves nothing behind
// with: what it says is forgotten when it expires. While nothing is refused, which
// is always as a rule, there is no Lease and nothing is written.
package refusal
