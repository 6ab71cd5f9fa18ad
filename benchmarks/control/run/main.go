// Command run measures the control plane on this machine, see package control:
//
//	make bench-control
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/control"
	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// options are the command line.
type options struct {
	control.Options
	bin, controller, out string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("benchmark failed", "error", err)
		stop()
		os.Exit(1) //nolint:gocritic // exitAfterDefer: stop was called
	}
}

func run(ctx context.Context, args []string) error {
	o := options{Options: control.Options{Progress: os.Stdout}}
	f := flag.NewFlagSet("control", flag.ContinueOnError)
	f.IntVar(&o.Services, "services", 500, "services of the waypoint")
	f.IntVar(&o.Routes, "routes", 5000, "routes on them")
	f.IntVar(&o.Edits, "edits", 200, "changes of a route")
	f.DurationVar(&o.Span, "span", 10*time.Second, "time of endpoint churn")
	f.IntVar(&o.Gateways, "gateways", 20, "Gateways in the end")
	f.StringVar(&o.Waypoint, "waypoint", "bin/waypoint", "our waypoint")
	f.StringVar(&o.controller, "controller", "bin/waypoint-controller", "our controller")
	f.StringVar(&o.bin, "bin", "", "folder of etcd and kube-apiserver, needed (make components)")
	f.StringVar(&o.out, "out", "benchmarks/results", "folder for results")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.bin == "" || o.Services < 1 || o.Edits < 1 || f.NArg() > 0 {
		return errors.New("-bin is needed, -services and -edits are 1 or more, and there are no further arguments")
	}
	dir, err := os.MkdirTemp("", "waypoint-bench-")
	if err != nil {
		return err
	}
	o.Dir = dir
	return errors.Join(measure(ctx, o), os.RemoveAll(dir))
}

func measure(ctx context.Context, o options) error {
	fmt.Println("etcd, kube-apiserver, the controller ...")
	server, err := apiserver.Start(ctx, o.bin, o.Dir)
	defer server.Stop()
	if err != nil {
		return fmt.Errorf("the API server does not start: %w\n%s", err, server.Logs())
	}
	if err := server.Install(ctx); err != nil {
		return err
	}
	controller, err := server.NewController(o.controller)
	if err != nil {
		return err
	}
	defer func() { _ = controller.Kill() }() // it may have ended
	if err := controller.Start(ctx); err != nil {
		return fmt.Errorf("the controller does not start: %w\n%s", err, controller.Log)
	}
	if err := controller.PointWebhook(ctx); err != nil {
		return err
	}
	report, err := control.Run(ctx, server, controller, o.Options)
	if err != nil {
		return fmt.Errorf("%w\nthe controller wrote:\n%s", err, controller.Log)
	}
	fmt.Println()
	return errors.Join(report.WriteText(os.Stdout), os.MkdirAll(o.out, 0o755), report.WriteJSON(filepath.Join(o.out, "control.json")))
}
