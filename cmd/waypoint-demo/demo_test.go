package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestStageEndsWhatItStarted(t *testing.T) {
	s := &stage{ctx: t.Context()}
	var ended []int
	for i := range 3 {
		s.Cleanup(func() { ended = append(ended, i) })
	}
	s.Errorf("a fault")
	err := s.clear()
	var failed failure
	if !errors.As(err, &failed) || err.Error() != "a fault" {
		t.Errorf("clear returned %v, want the fault", err)
	}
	if !slices.Equal(ended, []int{2, 1, 0}) {
		t.Errorf("ended in the order %v, want the last first", ended)
	}
}

func TestAttempt(t *testing.T) {
	s := &stage{ctx: t.Context()}
	if err := attempt(func() { s.Fatalf("port %d is in use", 8080) }); err == nil || err.Error() != "port 8080 is in use" {
		t.Errorf("got %v", err)
	}
	if err := attempt(func() {}); err != nil {
		t.Errorf("got %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a panic that is not the kit's was swallowed")
		}
	}()
	attempt(func() { panic("a mistake") })
}

func TestStepThatCannotBePlayed(t *testing.T) {
	for name, play := range map[string]func(context.Context, *world) (string, bool, error){
		"error":   func(context.Context, *world) (string, bool, error) { return "", true, errors.New("no answer") },
		"failure": func(context.Context, *world) (string, bool, error) { panic(failf("no answer")) },
	} {
		if p := playStep(t.Context(), nil, step{Name: name, play: play}); p.OK || p.Seen != "no answer" {
			t.Errorf("%s: seen %q, ok %v", name, p.Seen, p.OK)
		}
	}
}

func TestLinesKeepTheEnd(t *testing.T) {
	var l lines
	l.readFrom(strings.NewReader(strings.Repeat("early\n", keptLines) + "late 1\nlate 2\n"))
	if got := l.tail(2); got != "late 1\nlate 2" {
		t.Errorf("tail is %q", got)
	}
	if got := l.find("late"); got != "late 2" {
		t.Errorf("found %q", got)
	}
	if len(l.kept) > keptLines {
		t.Errorf("%d lines kept, want at most %d", len(l.kept), keptLines)
	}
}

// showTwo shows one step that is as expected and one that is not.
func showTwo(o options) string {
	var out bytes.Buffer
	s := newShow(o, &out)
	w := &world{waypoint: &process{log: new(lines)}, command: []string{"bin/waypoint"}}
	s.opening(w)
	for i, p := range []played{
		{Name: "First", Expected: "one", Seen: "one", OK: true, Millis: 12.3},
		{Name: "Second", Expected: "two", Seen: "three", Millis: 1234},
	} {
		s.begin(i+1, step{Name: p.Name, Expected: p.Expected})
		s.end(p)
	}
	s.closing(w, false)
	return out.String()
}

func TestText(t *testing.T) {
	const want = ` 1  First
      expected  one
 ok   seen      one  (12 ms)

 2  Second
      expected  two
 FAIL seen      three  (1.2 s)

1 of 2 steps as expected
`
	if got := showTwo(options{output: "text"}); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwhich should end with\n%s", got, want)
	}
}

func TestJSON(t *testing.T) {
	var r report
	if err := json.Unmarshal([]byte(showTwo(options{output: "json"})), &r); err != nil {
		t.Fatal(err)
	}
	if r.OK || len(r.Steps) != 2 || !r.Steps[0].OK || r.Steps[1].Seen != "three" {
		t.Errorf("got %+v", r)
	}
}

func TestMetricString(t *testing.T) {
	m := metric{Name: "n", Labels: map[string]string{"b": "2", "a": "1"}}
	if got := m.String(); got != `n{a="1", b="2"}` {
		t.Errorf("got %s", got)
	}
}
