// Package upstream gets bytes to an endpoint: it chooses one, connects to it,
// and keeps what can be used again.
//
//  1. [Pick] chooses among the ready endpoints of a port: the less loaded of
//     two drawn at random, from the nearest locality if the service asks for
//     that, and none that was tried before while another is left.
//  2. [Dialer] opens a byte stream to it: a CONNECT in a pooled tunnel to its
//     node proxy, or plain TCP where there is none.
//  3. [Idle] keeps streams and connections between exchanges, by endpoint.
package upstream
