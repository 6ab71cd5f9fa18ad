package main

import (
	"slices"
	"testing"
)

func TestParseTargets(t *testing.T) {
	for in, want := range map[string][]wanted{
		defaultTargets(2):     {{"waypoint", 0}, {"envoy", 0}, {"envoy", 2}},
		defaultTargets(4):     {{"waypoint", 0}, {"waypoint", 2}, {"envoy", 0}, {"envoy", 2}},
		"waypoint":            {{"waypoint", 0}},
		"envoy:4, waypoint:1": {{"envoy", 4}, {"waypoint", 1}},
	} {
		if got, err := parseTargets(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"envoy:", "envoy:0", "envoy:x"} {
		if got, err := parseTargets(in); err == nil {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int // scenarios
		ok   bool
	}{
		{nil, len(names()), true},
		{[]string{"-scenario", "serial,32x1"}, 2, true},
		{[]string{"-scenario", "nothing"}, 0, false},
		{[]string{"-rounds", "0"}, 0, false},
		{[]string{"more"}, 0, false},
	} {
		var o options
		if err := o.parse(c.args); (err == nil) != c.ok || c.ok && len(o.chosen) != c.want {
			t.Errorf("%v: %d scenarios, %v", c.args, len(o.chosen), err)
		}
	}
}
