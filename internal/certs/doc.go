// Package certs provides the certificates that package identity builds TLS
// upon.
//
// A source of certificates obtains a pair, checks it with [Check], and stores
// it in a [Current], which is what implements identity.Source: one value behind
// one pointer, and a channel that is closed at the next. [Files] is such a
// source; one that asks a CA or a Workload API embeds a Current just so.
//
// [CA] is a throw-away certificate authority, for demonstrations, tests and
// first steps without a cluster.
package certs
