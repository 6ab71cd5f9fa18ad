// Package proxy is the spine of the data path: it accepts tunnels, finds the
// destination of each stream, learns what is inside, and hands it to the
// forwarder for that.
//
//  1. [Listener] accepts connections, within limits, and gives each to an
//     hbone.Server.
//  2. [Proxy.Accept] is what that server calls with each stream. It resolves the
//     target in the snapshot in force. An unknown one is answered 404.
//  3. The port's declaration decides: HTTP goes to l7, opaque bytes to l4. A
//     port that declares nothing is looked at for a short while: what the client
//     says first tells, and a client that says nothing talks to a server that
//     speaks first.
package proxy
