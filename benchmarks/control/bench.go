package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/benchmarks/node"
	"github.com/waypoint-mesh/waypoint/benchmarks/process"
	"github.com/waypoint-mesh/waypoint/benchmarks/report"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
	"github.com/waypoint-mesh/waypoint/internal/controller/gateway"
	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// Options say how much is measured.
type Options struct {
	Services, Routes int
	Edits            int           // of a route
	Span             time.Duration // of endpoint churn, and of the quiet before it
	Gateways         int           // in the end
	Waypoint         string        // the program
	Dir              string        // for certificates and logs; it has to be empty
	Progress         io.Writer
}

// bench is a run under way.
type bench struct {
	o          Options
	server     *apiserver.Server
	controller *apiserver.Controller
	report     *Report

	network *target.Network
	client  *tls.Config // of the load tool
	node    *net.TCPListener
	target  *target.Target
	relay   *relay
	vip     string // of the service whose route is changed
	files   waypointFiles
	running *target.Instance
}

// waypointFiles are what a pod of the waypoint would have mounted.
type waypointFiles struct{ token, root string }

// Run measures, with a controller that runs. It leaves the objects that it made.
func Run(ctx context.Context, s *apiserver.Server, c *apiserver.Controller, o Options) (*Report, error) {
	b := &bench{o: o, server: s, controller: c, report: &Report{
		Date: time.Now().UTC().Truncate(time.Second), Machine: report.ThisMachine(), Services: o.Services, Routes: o.Routes,
	}}
	defer b.close()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"network and certificates", b.prepare},
		{"a Gateway, for its token and the controller's roots", b.enlist},
		{fmt.Sprintf("%d services and %d routes, with the controller stopped", o.Services, o.Routes), b.populate},
		{"cold start of the controller and the waypoint", b.coldStart},
		{fmt.Sprintf("%d changes of a route", o.Edits), b.edits},
		{fmt.Sprintf("endpoint churn elsewhere, %v", o.Span), b.churn},
		{fmt.Sprintf("%d Gateways", o.Gateways), b.moreGateways},
	} {
		began := time.Now()
		b.say("%s ...", step.what)
		if err := step.do(ctx); err != nil {
			return b.report, fmt.Errorf("%s: %w", step.what, err)
		}
		b.say("  done in %.1f s", time.Since(began).Seconds())
	}
	return b.report, nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.o.Progress, format+"\n", args...) }

func (b *bench) found(figures ...Figure) { b.report.Figures = append(b.report.Figures, figures...) }

func (b *bench) close() {
	if b.running != nil {
		if err := b.running.Stop(); err != nil {
			slog.Error("stopping the waypoint", "error", err)
		}
	}
	if b.relay != nil {
		b.relay.close()
	}
	if b.node != nil {
		_ = b.node.Close()
	}
}

// prepare makes the network, in which the node proxy is this process.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.network, b.node, err = target.NewNetwork(ctx, b.o.Dir); err != nil {
		return err
	}
	proxy, err := target.ServerTLS(b.network.NodeFiles())
	if err != nil {
		return err
	}
	go func() { _ = node.New(proxy).Serve(ctx, b.node) }() // it ends when the listener is closed
	if b.client, err = b.network.ClientTLS(target.Client); err != nil {
		return err
	}
	if b.relay, err = newRelay(ctx, b.controller.Discovery); err != nil {
		return err
	}
	b.target, err = target.NewWaypoint(ctx, target.Waypoint, b.o.Waypoint, 0, nil)
	return err
}

// patience is how long what takes seconds may take.
const patience = 2 * time.Minute

// eventually tries until there is no error.
func eventually(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return apiserver.Until(ctx, func() error { return try(ctx) })
}

// enlist makes the Gateway and keeps what the controller makes for its pods.
func (b *bench) enlist(ctx context.Context) error {
	c := b.server.Client
	labelled := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"istio.io/use-waypoint":"`+waypoint+`"}}}`))
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}
	err := errors.Join(
		c.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, labelled),
		create(ctx, c, other), create(ctx, c, gatewayOf(namespace)),
	)
	if err != nil {
		return err
	}
	for _, ns := range []string{namespace, elsewhere} {
		if err := create(ctx, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}}); err != nil {
			return err
		}
	}
	b.files = waypointFiles{filepath.Join(b.o.Dir, "token"), filepath.Join(b.o.Dir, "root.pem")}
	return eventually(ctx, b.mount)
}

// mount writes what the controller made into files.
func (b *bench) mount(ctx context.Context) error {
	var roots corev1.ConfigMap
	if err := b.server.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: waypoint + "-controller-roots"}, &roots); err != nil {
		return err
	}
	const hour = 3600
	token, err := b.server.Token(ctx, namespace, waypoint, gateway.TokenAudience, hour)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(b.files.token, []byte(token), 0o600),
		os.WriteFile(b.files.root, []byte(roots.Data["root.pem"]), 0o600),
	)
}

// populate makes the mesh, which the controller gets to see all at once.
func (b *bench) populate(ctx context.Context) error {
	if err := b.controller.Stop(); err != nil {
		return fmt.Errorf("stopping the controller: %w", err)
	}
	c := b.server.Client
	if err := each(ctx, b.o.Services, func(ctx context.Context, i int) error {
		ip := fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250)
		if i == 0 {
			ip = b.network.Pod().String()
		}
		return b.addService(ctx, namespace, i, ip)
	}); err != nil {
		return err
	}
	var first corev1.Service
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name(0)}, &first); err != nil {
		return err
	}
	b.vip = first.Spec.ClusterIP
	if err := b.addService(ctx, elsewhere, 0, "10.2.0.1"); err != nil {
		return err
	}
	if err := create(ctx, c, versioned(0)); err != nil {
		return err
	}
	return each(ctx, b.o.Routes, func(ctx context.Context, i int) error { return create(ctx, c, numbered(i, b.o.Services)) })
}

func (b *bench) addService(ctx context.Context, ns string, i int, ip string) error {
	c, p := b.server.Client, pod(ns, i)
	if err := errors.Join(create(ctx, c, service(ns, i)), create(ctx, c, slice(ns, i, true)), create(ctx, c, p)); err != nil {
		return err
	}
	before := p.DeepCopy()
	ready(p, ip)
	return c.Status().Patch(ctx, p, client.MergeFrom(before))
}

// id is the controller's process.
func (b *bench) id() process.ID { return process.ID(b.controller.PID()) }

// settle waits until the controller has nothing to do: it used less than a
// hundredth of a core for a second.
func (b *bench) settle(ctx context.Context) error {
	return eventually(ctx, func(ctx context.Context) error {
		used, err := b.cpuFor(ctx, b.id(), time.Second)
		if err == nil && used > 10*time.Millisecond {
			err = fmt.Errorf("the controller is still at work: %v of a second", used)
		}
		return err
	})
}

// cpuFor returns the CPU time that a process uses in a span from now.
func (b *bench) cpuFor(ctx context.Context, id process.ID, span time.Duration) (time.Duration, error) {
	before, err := id.CPU()
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := id.CPU()
	return after - before, err
}

const mib = 1 << 20

// inMiB reads an amount of memory.
func inMiB(read func() (int64, error)) (float64, error) {
	n, err := read()
	return float64(n) / mib, err
}
