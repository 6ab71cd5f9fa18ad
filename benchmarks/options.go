package main

import (
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/scenario"
)

// options are the command line.
type options struct {
	scenarios, targets   string
	rounds               int
	span                 time.Duration
	waypoint, base, args string
	cache, out           string
	profiles             string
	short                bool

	chosen []scenario.Scenario
}

// kept is the folder of the results that the repository keeps.
const kept = "benchmarks/results"

// shortSpan is long enough for some thousand requests on a slow machine.
const shortSpan = 300 * time.Millisecond

func (o *options) parse(args []string) error {
	f := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	f.StringVar(&o.scenarios, "scenario", "", "names, comma-separated; all if empty")
	f.StringVar(&o.targets, "targets", "", "waypoint and envoy, comma-separated, each with :WORKERS where it is to have another number than as shipped; default: both as shipped and with two")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of each scenario")
	f.DurationVar(&o.span, "span", 2*time.Second, "time to measure in each round")
	f.StringVar(&o.waypoint, "waypoint", "bin/waypoint", "our binary")
	f.StringVar(&o.base, "base", "", "another build of it, to be the target base")
	f.StringVar(&o.args, "args", "", "more arguments for the waypoint, such as --task-mode=goroutines")
	f.StringVar(&o.cache, "cache", ".cache", "where Envoy is installed")
	f.StringVar(&o.out, "out", kept, "folder for results")
	f.StringVar(&o.profiles, "profiles", "", "folder for a CPU and an allocation profile of the waypoint under each load; profiling costs a little")
	f.BoolVar(&o.short, "short", false, "look at function: one round of everything, asserting what is deterministic")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.short {
		o.rounds, o.span = 1, shortSpan
		if o.targets == "" {
			o.targets = "waypoint,envoy"
		}
	}
	if o.rounds < 1 || o.span < 50*time.Millisecond {
		return fmt.Errorf("-rounds must be positive and -span 50ms or more, got %d and %v", o.rounds, o.span)
	}
	return o.choose()
}

func (o *options) choose() error {
	if o.scenarios == "" {
		o.chosen = scenario.All
	}
	for _, name := range fields(o.scenarios) {
		s, ok := scenario.Find(name)
		if !ok {
			return fmt.Errorf("-scenario: no %q; there are: %s", name, strings.Join(names(), ", "))
		}
		o.chosen = append(o.chosen, s)
	}
	return nil
}

func names() []string {
	var all []string
	for _, s := range scenario.All {
		all = append(all, s.Name)
	}
	return all
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// wanted is a target by name and number of workers, 0 for as many as it has when
// nothing is said.
type wanted struct {
	name    string
	workers int
}

// defaultTargets are both as shipped, and both with two workers.
func defaultTargets(cores int) string {
	if cores == 2 {
		return "waypoint,envoy,envoy:2" // two is what the waypoint takes
	}
	return "waypoint,waypoint:2,envoy,envoy:2"
}

func parseTargets(list string) ([]wanted, error) {
	if list == "" {
		list = defaultTargets(runtime.NumCPU())
	}
	var all []wanted
	for _, t := range fields(list) {
		name, workers, given := strings.Cut(t, ":")
		w := wanted{name: name}
		if given {
			n, err := strconv.Atoi(workers)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("-targets: %q is not NAME:WORKERS", t)
			}
			w.workers = n
		}
		all = append(all, w)
	}
	return all, nil
}
