// Package xds makes a controller the source of configuration: a client of delta
// ADS, Envoy's discovery protocol, for the resources of api/.
//
// One goroutine follows the controller, from one stream to the next:
//
//  1. It dials with the roots and the token that the files hold now, subscribes
//     to every type, and says which versions it has, so that it is sent the
//     difference only.
//  2. Each response is decoded and checked, and answered: accepted, or refused
//     with the names of the resources that are wrong and why. What is right in it
//     counts all the same.
//  3. What was pushed together comes into force together, through compile and
//     one publication of [mesh.Builder]; on a new stream, that is the first
//     answers to all types.
//
// A resource that is refused keeps its last good version. One that has none fails
// closed, as compile makes it.
//
// Without the controller everything stays as it is. With a state directory that
// outlives us: the configuration is kept in a file there, and served at once by
// the next start.
package xds
