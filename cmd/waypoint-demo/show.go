package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// show tells what happens: as text while it does, or as JSON at the end.
type show struct {
	text   io.Writer
	json   *json.Encoder // nil for text
	colour bool
	report report
}

// report is the whole demo, as --output json prints it.
type report struct {
	OK      bool     `json:"ok"`
	ReadyMS float64  `json:"ready_ms"` // from the waypoint's start until it was ready
	Steps   []played `json:"steps"`
	evidence
	Kept *kept `json:"kept,omitempty"`
}

func newShow(o options, out io.Writer) *show {
	s := &show{text: out, report: report{OK: true}}
	if o.output == "json" {
		s.text, s.json = io.Discard, json.NewEncoder(out)
		s.json.SetIndent("", "  ")
		return s
	}
	s.colour = terminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// The few looks of text on a terminal, as SGR codes.
const (
	bold  = "1"
	faint = "2"
	red   = "1;31"
	green = "32"
)

func (s *show) look(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *show) printf(format string, args ...any) { fmt.Fprintf(s.text, format, args...) }

func (s *show) opening(w *world) {
	s.report.ReadyMS = float64(w.waypoint.ready.Microseconds()) / 1000
	s.printf(`A mesh on %s of this machine: applications, a node proxy for each of their pods, two clients.

  client  ==tunnel==>  waypoint %s  ==tunnel==>  node proxy  -->  application

The waypoint is a process of its own, %s run --config <copy of examples/mesh>.
It was ready %s after its start.

`, network, hboneAddr, w.command[0], millis(w.waypoint.ready))
}

func (s *show) begin(number int, st step) {
	s.printf("%s\n      expected  %s\n", s.look(bold, fmt.Sprintf("%2d  %s", number, st.Name)), st.Expected)
}

func (s *show) end(p played) {
	s.report.Steps = append(s.report.Steps, p)
	mark := s.look(green, "ok  ")
	if !p.OK {
		s.report.OK = false
		mark = s.look(red, "FAIL")
	}
	s.printf(" %s seen      %s  %s\n\n", mark, p.Seen, s.look(faint, "("+took(p.Millis)+")"))
}

// log shows the end of the waypoint's own log, after something that was not as expected.
func (s *show) log(p *process) {
	s.printf("      the waypoint's log ends with\n%s\n\n", indent(p.log.tail(10), "        "))
}

// took writes a duration in the unit that suits it.
func took(millis float64) string {
	if millis < 1000 {
		return fmt.Sprintf("%.0f ms", millis)
	}
	return fmt.Sprintf("%.1f s", millis/1000)
}

// closing shows the evidence, the sum of it all, and what there is to try if
// everything is kept up.
func (s *show) closing(w *world, keep bool) error {
	s.report.evidence = w.seen
	if keep {
		s.report.Kept = newKept(w)
	}
	if s.json != nil {
		return s.json.Encode(s.report)
	}
	if w.seen.Span != nil {
		s.telemetry(w.seen)
	}
	asExpected := 0
	for _, p := range s.report.Steps {
		if p.OK {
			asExpected++
		}
	}
	sum := fmt.Sprintf("%d of %d steps as expected", asExpected, len(s.report.Steps))
	look := green
	if !s.report.OK {
		look = red
	}
	s.printf("%s\n", s.look(look, sum))
	if keep {
		s.invite(w.command[0], s.report.Kept)
	}
	return nil
}

func (s *show) telemetry(e evidence) {
	s.printf("%s\n%s\n\n", s.look(bold, "The request of step 11 in the access log"), indent(e.AccessLog, "    "))
	s.printf("%s\n", s.look(bold, "Its span"))
	s.printf("    %s, %.2f ms\n    trace %s, span %s, parent %s\n", e.Span.Name, e.Span.Millis, e.Span.TraceID, e.Span.SpanID, e.Span.ParentID)
	for _, name := range []string{"http.method", "http.status_code", "route_name", "upstream_address", "istio.source_principal", "istio.destination_workload"} {
		s.printf("    %-26s  %s\n", name, e.Span.Attributes[name])
	}
	s.printf("\n%s\n", s.look(bold, "Some of the metrics, added up over labels that are left out"))
	for _, m := range e.Metrics {
		s.printf("  %8.0f  %s\n", m.Value, m)
	}
	s.printf("\n")
}

// String writes a metric as Prometheus does.
func (m metric) String() string {
	var labels []string
	for name, value := range m.Labels {
		labels = append(labels, fmt.Sprintf("%s=%q", name, value))
	}
	if len(labels) == 0 {
		return m.Name
	}
	slices.Sort(labels)
	return m.Name + "{" + strings.Join(labels, ", ") + "}"
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(text, "\n", "\n"+by)
}
