package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/conformance"
	"github.com/waypoint-mesh/waypoint/benchmarks/envoy"
	"github.com/waypoint-mesh/waypoint/benchmarks/node"
	"github.com/waypoint-mesh/waypoint/benchmarks/process"
	"github.com/waypoint-mesh/waypoint/benchmarks/report"
	"github.com/waypoint-mesh/waypoint/benchmarks/scenario"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// suite is one run of the command.
type suite struct {
	options
	dir     string // temporary
	node    *process.Process
	bench   scenario.Bench
	envoy   string // path, or missing
	targets []*target.Target
	failed  bool
}

func newSuite(ctx context.Context, o options) (*suite, error) {
	dir, err := os.MkdirTemp("", "waypoint-bench-")
	if err != nil {
		return nil, err
	}
	s := &suite{options: o, dir: dir}
	if err := s.prepare(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *suite) prepare(ctx context.Context) error {
	network, l, err := target.NewNetwork(ctx, s.dir)
	if err != nil {
		return err
	}
	config, err := network.ClientTLS(target.Client)
	if err != nil {
		return err
	}
	s.bench = scenario.Bench{Network: network, TLS: config, Span: s.span, Short: s.short, Profiles: s.profiles}
	if err := s.startNode(ctx, l, network.NodeFiles()); err != nil {
		return err
	}
	return s.findTargets(ctx)
}

// close ends what was started.
func (s *suite) close() {
	var err error
	if s.node != nil {
		err = s.node.Stop()
	}
	if err := errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		slog.Error("tidying up", "error", err)
	}
}

// nodeCommand makes this program the node proxy; the folder of its certificate
// follows.
const nodeCommand = "node"

// startNode runs the node proxy as a process of its own, which inherits l.
func (s *suite) startNode(ctx context.Context, l *net.TCPListener, files string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	defer l.Close()
	s.node, err = process.Run(ctx, process.Command{
		Path: self, Args: []string{nodeCommand, files}, Files: []*os.File{f}, Log: filepath.Join(s.dir, "node.log"),
	})
	return err
}

func serveNode(ctx context.Context, files string) error {
	config, err := target.ServerTLS(files)
	if err != nil {
		return err
	}
	const inherited = 3
	l, err := net.FileListener(os.NewFile(inherited, "listener"))
	if err != nil {
		return fmt.Errorf("the listener that the benchmark passes on: %w", err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("inherited a %T, want a TCP listener", l)
	}
	return node.New(config).Serve(ctx, tcp)
}

// findTargets installs Envoy. Without it the waypoint is measured alone.
func (s *suite) findTargets(ctx context.Context) error {
	all, err := parseTargets(s.options.targets)
	if err != nil {
		return err
	}
	for _, w := range all {
		t, err := s.find(ctx, w)
		if err != nil {
			return err
		}
		if t != nil {
			s.targets = append(s.targets, t)
		}
	}
	if len(s.targets) == 0 {
		return errors.New("no target is left to measure")
	}
	return nil
}

// find returns a target, or nil for an Envoy that cannot be had.
func (s *suite) find(ctx context.Context, w wanted) (*target.Target, error) {
	switch w.name {
	case target.Waypoint:
		return target.NewWaypoint(ctx, w.name, s.waypoint, w.workers, strings.Fields(s.args))
	case target.Base:
		return target.NewWaypoint(ctx, w.name, s.base, w.workers, strings.Fields(s.args))
	case target.Envoy:
		if s.envoy == "" {
			s.envoy = s.installEnvoy(ctx)
		}
		if s.envoy == missing {
			return nil, nil
		}
		return target.NewEnvoy(s.envoy, w.workers), nil
	}
	return nil, fmt.Errorf("-targets: no %q; there are waypoint, envoy, and base with -base", w.name)
}

const missing = "-"

// installEnvoy returns the path, or missing after having said why.
func (s *suite) installEnvoy(ctx context.Context) string {
	path, err := envoy.Install(ctx, s.cache)
	if err != nil {
		fmt.Printf("Envoy is left out, the waypoint is measured alone: %v\n", err)
		return missing
	}
	return path
}

// run does all rounds and reports.
func (s *suite) run(ctx context.Context) error {
	if err := s.conformance(ctx); err != nil {
		return err
	}
	rep := report.Report{Date: time.Now().UTC().Truncate(time.Second), Machine: report.ThisMachine()}
	for n, sc := range s.chosen {
		fmt.Printf("[%d/%d] %s: %s\n", n+1, len(s.chosen), sc.Name, sc.About)
		rep.Results = append(rep.Results, s.scenario(ctx, sc)...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return s.report(&rep)
}

// conformance checks each program once, whatever the number of its workers.
func (s *suite) conformance(ctx context.Context) error {
	checked := make(map[string]bool)
	for _, t := range s.targets {
		if checked[t.Name] {
			continue
		}
		checked[t.Name] = true
		if err := conformance.Check(ctx, s.bench.Network, t, s.dir); err != nil {
			return fmt.Errorf("%v does not do what every target has to do:\n%w", t, err)
		}
		fmt.Printf("%v routes, allows, denies, logs and counts as every target has to\n", t)
	}
	return nil
}

// scenario runs A B A B. A round that fails is said to, and the others go on.
func (s *suite) scenario(ctx context.Context, sc scenario.Scenario) []report.Result {
	rounds := make([][]report.Round, len(s.targets))
	count := s.rounds
	if sc.Once {
		count = 1
	}
	for n := range count {
		for i, t := range s.targets {
			r, err := s.bench.Run(ctx, sc, t)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				s.failed = true
				fmt.Printf("  round %d/%d %-11v FAILED: %v\n", n+1, count, t, err)
				continue
			}
			fmt.Printf("  round %d/%d %-11v %s\n", n+1, count, t, report.Line(r))
			s.judge(sc, t, r)
			rounds[i] = append(rounds[i], r)
		}
	}
	var results []report.Result
	for i, t := range s.targets {
		if len(rounds[i]) > 0 {
			results = append(results, report.Summarize(sc.Name, t, rounds[i]))
		}
	}
	return results
}

// judge says what was wrong with a round.
func (s *suite) judge(sc scenario.Scenario, t *target.Target, r report.Round) {
	if r.Errors > 0 {
		s.failed = true
		fmt.Printf("  %v: %d ERRORS, the first: %v\n", t, r.Errors, r.Why)
	}
	if !s.short || !t.Ours() {
		return
	}
	if err := sc.CheckBounds(r); err != nil {
		s.failed = true
		fmt.Printf("  OUT OF BOUNDS: %v\n", err)
	}
}

// report shows and keeps the results. Plots are of whole runs only, and so is what
// READMEs say, where the results are those that are kept in the repository.
func (s *suite) report(r *report.Report) error {
	fmt.Println()
	if err := errors.Join(r.WriteText(os.Stdout), os.MkdirAll(s.out, 0o755)); err != nil {
		return err
	}
	if !s.short {
		fmt.Println()
		if err := r.WriteGoals(os.Stdout); err != nil {
			return err
		}
	}
	if err := r.WriteJSON(filepath.Join(s.out, "latest.json")); err != nil || s.scenarios != "" || s.short {
		return err
	}
	if err := r.WritePlots(s.out); err != nil || s.out != kept {
		return err
	}
	for _, readme := range []string{"README.md", "benchmarks/README.md"} {
		if _, err := r.UpdateSection(readme); err != nil {
			return err
		}
	}
	return nil
}
