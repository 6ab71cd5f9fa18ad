package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// Where everything is: the addresses are those of examples/mesh.
const (
	network = "127.66.0.0/24"

	hboneAddr     = "127.66.0.1:15008"
	statusAddr    = "127.66.0.1:15021"
	metricsAddr   = "127.66.0.1:15020"
	adminAddr     = "127.66.0.1:15000"
	collectorAddr = "127.66.0.2:4317"

	reviewsVIP  = "10.0.0.1:8080"
	ratingsVIP  = "10.0.0.4:8080"
	checkoutVIP = "10.0.0.5:9090"
	ledgerVIP   = "10.0.0.8:9000"
	mailVIP     = "10.0.0.9:2525"
	secureVIP   = "10.0.0.10:443"
)

const (
	waypointID = "spiffe://cluster.local/ns/default/sa/waypoint"
	clientID   = "spiffe://cluster.local/ns/default/sa/client"
	strangerID = "spiffe://cluster.local/ns/default/sa/stranger"
)

// world is all that the steps play with.
type world struct {
	stage *stage
	mesh  *meshtest.Mesh
	web   *http.Client // for the waypoint's own pages
	trace *collector

	// The applications whose records the steps look at.
	reviews  map[string]*meshtest.HTTPApp // by version
	checkout []*meshtest.GRPCApp

	client, stranger         *meshtest.Client
	clientHTTP, strangerHTTP *http.Client
	clientGRPC, strangerGRPC *grpc.ClientConn

	manifests string // folder that the waypoint serves
	certs     string // folder of its certificate
	clientDir string // folder of the client's, for `waypoint tunnel`
	command   []string
	waypoint  *process

	seen evidence
}

// newWorld starts everything but the waypoint.
func newWorld(ctx context.Context, s *stage, o options) (*world, error) {
	w := &world{stage: s, web: &http.Client{Timeout: 5 * time.Second}}
	err := attempt(func() {
		w.mesh = meshtest.NewForExamples(s)
		w.startApplications()
		w.startNodeProxies()
		w.trace = startCollector(s)
		w.makeClients()
		w.makeFolders(o)
	})
	if err != nil {
		return nil, failf("%w\nthe demo needs the addresses %s for itself: is another one running?", err, network)
	}
	s.Cleanup(w.web.CloseIdleConnections)
	w.command = []string{
		o.waypoint, "run", "--config", w.manifests,
		"--cert", filepath.Join(w.certs, "cert.pem"), "--key", filepath.Join(w.certs, "key.pem"), "--root", filepath.Join(w.certs, "ca.pem"),
		"--listen", hboneAddr, "--status", statusAddr, "--metrics", metricsAddr, "--admin", adminAddr,
		"--access-log", "text", "--otlp-endpoint", "http://" + collectorAddr,
		"--drain-delay", "300ms", "--drain-timeout", "10s",
	}
	return w, w.startWaypoint(ctx)
}

// startWaypoint starts it, also anew when it has ended.
func (w *world) startWaypoint(ctx context.Context) (err error) {
	w.waypoint, err = startProcess(ctx, w.web, "http://"+statusAddr+"/healthz/ready", w.command[0], w.command[1:]...)
	if err == nil {
		w.stage.Cleanup(w.waypoint.end)
	}
	return err
}

func (w *world) startApplications() {
	m := w.mesh
	w.reviews = map[string]*meshtest.HTTPApp{
		"v1": m.HTTP("reviews-v1", m.Addr(21, 8080)),
		"v2": m.HTTP("reviews-v2", m.Addr(22, 8080)),
	}
	m.HTTP("ratings-1", m.Addr(31, 8080)) // the other endpoint is dead
	w.checkout = []*meshtest.GRPCApp{
		m.GRPC("checkout-v1", m.Addr(41, 9090)),
		m.GRPC("checkout-v2", m.Addr(42, 9090)),
	}
	m.TCP("ledger", m.Addr(51, 9000), tally)
	m.TCP("mail", m.Addr(52, 2525), meshtest.Greet(greeting))
	m.TLS("accounts", m.Addr(61, 8443), "accounts.shop.test")
	m.TLS("billing", m.Addr(62, 8443), "billing.shop.test")
	// Not of a step: for examples/features/service-entry.yaml, to try with --keep.
	m.HTTP("books-1", m.Addr(71, 8080))
	m.HTTP("books-2", m.Addr(72, 8080))
}

// tally reads to the end and answers only then: without a half-close it never would.
func tally(conn *net.TCPConn) {
	if n, err := io.Copy(io.Discard, conn); err == nil {
		fmt.Fprintf(conn, "%d bytes and an end", n)
	}
}

// greeting is what the mail server says before anybody spoke to it.
const greeting = "220 mail.shop.test ready\n"

// startNodeProxies starts those of the pods that examples/mesh says are captured.
func (w *world) startNodeProxies() {
	for host, account := range map[byte]string{
		21: "reviews", 22: "reviews", 31: "ratings", 41: "checkout", 42: "checkout", 51: "ledger", 61: "accounts", 62: "billing", 72: "books",
	} {
		w.mesh.NodeProxy(w.mesh.IP(host), "spiffe://cluster.local/ns/default/sa/"+account)
	}
}

func (w *world) makeClients() {
	as := func(id string, host byte) *meshtest.Client {
		c := w.mesh.Client(id)
		c.From = w.mesh.IP(host)
		c.Expect = append(c.Expect, w.mesh.ID(waypointID))
		return c
	}
	w.client, w.stranger = as(clientID, 11), as(strangerID, 12)
	w.clientHTTP, w.strangerHTTP = w.client.HTTP(hboneAddr), w.stranger.HTTP(hboneAddr)
	w.clientGRPC, w.strangerGRPC = w.client.GRPC(hboneAddr, checkoutVIP), w.stranger.GRPC(hboneAddr, checkoutVIP)
}

// makeFolders copies the manifests, so that the edit of a step changes nobody's
// own, and issues the certificates.
func (w *world) makeFolders(o options) {
	dir := w.stage.folder()
	w.manifests, w.certs, w.clientDir = filepath.Join(dir, "mesh"), filepath.Join(dir, "waypoint"), filepath.Join(dir, "client")
	if err := os.CopyFS(w.manifests, os.DirFS(o.config)); err != nil {
		w.stage.Fatalf("copying the manifests: %v", err)
	}
	for dir, id := range map[string]string{w.certs: waypointID, w.clientDir: clientID} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			w.stage.Fatalf("%v", err)
		}
		w.mesh.WriteCertificate(dir, id)
	}
}
