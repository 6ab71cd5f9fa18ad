// Command benchmarks measures what our waypoint costs beside the real Envoy, on
// this machine, on loopback:
//
//	make bench [SCENARIO=published,serial] [ROUNDS=3] [TARGETS=waypoint,envoy,envoy:2]
//
// Each target is started anew for each round of each scenario, with the same mesh,
// and driven by the same load tool towards the same node proxy: A B A B. The node
// proxy is a process of its own, and a target is charged for its own CPU time
// alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		slog.Error("benchmark failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == nodeCommand {
		return serveNode(ctx, args[1])
	}
	var o options
	if err := o.parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	s, err := newSuite(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.run(ctx); err != nil {
		return err
	}
	if s.failed {
		return fmt.Errorf("there were errors, see above")
	}
	return nil
}
