// Package certs provides the certificates that package identity builds TLS
// upon.
//
// A source of certificates obtains a pair, checks it with [Check], and stores
// it in the [Current] that it embeds, which is what implements identity.Source:
// one value behind one pointer, and a channel that is closed at the next. What a
// source obtains is taken over whole or not at all, and what is in force stays so
// until there is better. There are three:
//
//   - [Files] reads PEM files, and reads them again when they change.
//   - [IstioCA] makes keys and has Istio's CA certify them, again at about half of
//     each certificate's life.
//   - [WorkloadAPI] listens to a SPIFFE agent.
//
// [CA] is a throw-away certificate authority, for demonstrations, tests and
// first steps without a cluster.
package certs
