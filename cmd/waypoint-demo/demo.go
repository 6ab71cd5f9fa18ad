package main

import (
	"context"
	"io"
	"time"
)

// step is one thing that the demo shows.
type step struct {
	Name     string
	Expected string
	play     func(context.Context, *world) (seen string, ok bool, err error)
}

// played is a step that was played.
type played struct {
	Name     string  `json:"name"`
	Expected string  `json:"expected"`
	Seen     string  `json:"seen"`
	OK       bool    `json:"ok"`
	Millis   float64 `json:"ms"`
}

// steps are played in this order; the last ends the waypoint.
var steps = []step{
	{"Weighted split", splitExpected, split},
	{"Header route", headerExpected, headerRoute},
	{"gRPC route", grpcExpected, grpcRoute},
	{"Policy", policyExpected, policy},
	{"Retry past a dead endpoint", retryExpected, retry},
	{"Edit while running", editExpected, edit},
	{"TCP with half-close", tcpExpected, halfClose},
	{"Server speaks first, port undeclared", serverFirstExpected, serverFirst},
	{"TLS by server name", sniExpected, serverNames},
	{"Certificate rotation under load", rotationExpected, rotate},
	{"One request, as telemetry tells it", telemetryExpected, witness},
	{"Drain", drainExpected, drain},
}

// patience bounds a step: what does not come within it is not as expected.
const patience = 15 * time.Second

// run plays the demo.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	s := &stage{ctx: ctx}
	defer func() {
		if ended := s.clear(); err == nil {
			err = ended
		}
	}()
	show := newShow(o, out)
	w, err := newWorld(ctx, s, o)
	if err != nil {
		return err
	}
	show.opening(w)
	asExpected := true
	for i, st := range steps {
		show.begin(i+1, st)
		p := playStep(ctx, w, st)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		show.end(p)
		if !p.OK {
			asExpected = false
			show.log(w.waypoint)
		}
	}
	if o.keep { // the last step has ended it
		if err := w.startWaypoint(ctx); err != nil {
			return err
		}
	}
	if err := show.closing(w, o.keep); err != nil {
		return err
	}
	if o.keep {
		<-ctx.Done()
	}
	if !asExpected {
		return errDiffers
	}
	return nil
}

// playStep plays a step. That it cannot be played is not as expected, too.
func playStep(ctx context.Context, w *world, st step) played {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := played{Name: st.Name, Expected: st.Expected}
	start := time.Now()
	var err error
	if raised := attempt(func() { p.Seen, p.OK, err = st.play(ctx, w) }); raised != nil {
		err = raised
	}
	p.Millis = float64(time.Since(start).Microseconds()) / 1000
	if err != nil {
		p.Seen, p.OK = err.Error(), false
	}
	return p
}
