// Package identity says who a peer is and sets up TLS so that this is proven.
//
// An [ID] is what a SPIFFE URI of the form
//
//	spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT
//
// names. It comes from one place only: the single URI SAN of a certificate that
// chains to the mesh roots. [Parse] is strict, because two readings of one
// certificate are a way past a policy: what is not exactly of this form is
// nobody.
//
// [ServerConfig] and [ClientConfig] turn a [Source] of certificates into TLS
// configurations. Both read the source at every handshake, so that a renewed
// certificate and a changed set of roots hold for the next connection and cut
// none that is open.
package identity
