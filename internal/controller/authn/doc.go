// Package authn finds out whose waypoint a client of the discovery server is, by
// what it shows:
//
//   - a bearer token of a Kubernetes ServiceAccount, bound to our audience. The API
//     server says whether it is good (TokenReview);
//   - or the certificate that a workload has in the mesh. It has to lead to the
//     roots of the mesh, and its SPIFFE identity names the ServiceAccount.
//
// Either way a client is a ServiceAccount, and may have the configuration of the
// Gateway of the same name in the same namespace, which is the account that the
// Gateway's waypoints run as. So a proof of another namespace, or of another account
// in the same one, is of no use, and neither are the tokens that pods have for the
// API server.
//
// What the API server said of a token counts for a minute, never longer than the
// token, and is kept under a hash of it. That is for waypoints that reconnect all at
// once. A stream that is admitted is not asked about again: it ends with its token
// or certificate, with the Gateway, and when the server moves its clients about,
// which is the longest that a token can outlive its account or pod.
//
// Nobody has proven anything who gets here, so what a client can cost is bounded:
// what a token says against itself is believed without asking, only so many tokens
// are asked about at a time, and a refusal is remembered too.
package authn
