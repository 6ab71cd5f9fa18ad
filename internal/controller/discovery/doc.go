// Package discovery serves waypoints their configuration: delta ADS, as Envoy's
// discovery protocol defines it, over the resources of api/.
//
// Whoever translates a gateway's objects calls [Server.Update] with what became
// different. From there on:
//
//  1. The gateway's scope chooses what its waypoints need out of what is known
//     of the mesh, see scope. What they do not need costs a map entry.
//  2. What changed is marshalled once, gets the hash of its content as version,
//     and goes to the end of the gateway's log, see set.
//  3. Each stream has a place in that log, and nothing else of its own: what is
//     behind the place is what the client lacks. A resource that changed twice
//     stands in the log once, so a client that is slow gets the newest state and
//     not the history. The next push waits for the answer to the last one, so at
//     most one is under way to a client; one that does not answer is cut.
//  4. A push may touch several types, and large ones take several responses.
//     They say so (api.Push), so that the client brings them into force as one.
//
// Versions are hashes, so they outlive the server: a client that comes back, to
// this replica or to another, says what it has and gets the difference.
//
// The server of go-control-plane does not do for this: it keeps a map of versions
// of all resources for each stream, answers each type apart, and does not tell
// which resource of a response was refused.
package discovery
