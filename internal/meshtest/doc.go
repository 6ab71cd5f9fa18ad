// Package meshtest is a mesh in one process, for tests that look at a waypoint
// from outside: source and destination node proxies, applications that record
// what reached them, a throw-away CA.
//
//	mesh := meshtest.New(t)
//	app := mesh.HTTP("reviews-v1", mesh.Addr(21, 8080))
//	node := mesh.NodeProxy(mesh.IP(21), "spiffe://cluster.local/ns/default/sa/reviews")
//	client := mesh.Client("spiffe://cluster.local/ns/default/sa/productpage")
//
//	conn, err := client.Dial(ctx, waypointAddr, "10.0.0.1:8080") // a net.Conn with CloseWrite
//	resp, err := client.HTTP(waypointAddr).Get("http://10.0.0.1:8080/")
//
//	node.Connects()  // each CONNECT: target, fields, who asked
//	app.Requests()   // each request as it was spelled on the wire
//	node.Behave(meshtest.Refuse(503))
//
// How it is made:
//
//  1. Everything listens on addresses of a /24 of 127.0.0.0/8 that [New] claims
//     for this mesh alone, so tests run side by side and ports are the real ones:
//     a node proxy is at 15008 of its pod's address.
//  2. [Conn] and [Stream] are the HTTP/2 engine of node proxies and clients. It
//     blocks, and shares nothing with internal/h2, so that a fault there meets a
//     peer that does not have it. Its defaults and habits are ztunnel's.
//  3. All that was started ends with the test, and what does not end fails it.
//  4. Nothing here needs the testing package ([TB] is what it uses of it), so the
//     demo is built of the same parts.
//
// The many addresses of the loopback network are a thing of Linux: elsewhere
// they have to be added by hand.
package meshtest
