package explain

import (
	"cmp"
	"fmt"
	"strings"
)

// Text tells the answer to people, a line for each step and indented ones for
// what was considered on the way.
func (a *Answer) Text() string {
	var w writer
	q := &a.Question
	what := "a connection"
	if q.Method != "" {
		what = q.Method + " " + q.URL
	}
	w.line("%s from %s to %s", what, q.From, q.To)
	if d := a.Destination; d != nil {
		w.step("destination", "%s, port %d", cmp.Or(d.Service, "workload "+d.Workload), d.Port)
		w.step("protocol", "%s", a.Protocol)
	}
	if a.Path != "" {
		w.step("path", "%s", a.Path)
	}
	a.Policy.write(&w)
	a.Route.write(&w)
	for i := range a.Backends {
		a.Backends[i].write(&w)
	}
	a.Outcome.write(&w)
	return w.String()
}

type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) step(name, format string, args ...any) {
	w.line("%-12s %s", name, fmt.Sprintf(format, args...))
}

func (w *writer) detail(format string, args ...any) {
	w.line("%-12s   %s", "", fmt.Sprintf(format, args...))
}

func (p *Policy) write(w *writer) {
	if p == nil {
		return
	}
	verdict := "denied"
	if p.Allowed {
		verdict = "allowed"
	}
	told := p.Reason
	if !strings.HasPrefix(told, verdict) { // "allowed by a rule" says it already
		told = verdict + ": " + told
	}
	if p.Policy != "" {
		told += ": " + p.Policy
	}
	if p.Rule >= 0 {
		told += fmt.Sprintf(" rules[%d]", p.Rule)
	}
	w.step("policy", "%s", told)
	for _, s := range p.Steps {
		head := s.Action + " " + s.Policy
		if s.DryRun {
			head += " (dry run)"
		}
		if s.Matched {
			w.detail("%s: matches%s", head, after(", ", s.Why))
		} else {
			w.detail("%s: %s", head, s.Why)
		}
	}
}

func (r *Route) write(w *writer) {
	if r == nil {
		return
	}
	if r.Route == "" {
		w.step("route", "%s", r.Routes)
	} else {
		w.step("route", "%s%s (%s)", r.Route, after(" rule ", r.Rule), r.Routes)
	}
	for _, t := range r.Tried {
		w.detail("%s%s, %s: %s", t.Route, after(" rule ", t.Rule), t.Match, cmp.Or(t.Why, "matches"))
	}
	if r.More > 0 {
		w.detail("and %d more matches", r.More)
	}
	for _, f := range r.Filters {
		w.step("filter", "%s", f)
	}
	if r.Timeouts != "" {
		w.step("timeouts", "%s", r.Timeouts)
	}
	if r.Retry != "" {
		w.step("retry", "%s", r.Retry)
	}
}

// after is what with a separator before it, or nothing.
func after(separator, what string) string {
	if what == "" {
		return ""
	}
	return separator + what
}

func (b *Backend) write(w *writer) {
	name := ""
	if b.Service != "" {
		name = fmt.Sprintf("%s port %d, ", b.Service, b.Port)
	}
	why := b.Why
	if b.Status != 0 {
		why = fmt.Sprintf("answered %d: %s", b.Status, b.Why)
	}
	w.step("backend", "%s%.4g%%%s", name, b.Percent, after(": ", why))
	for _, f := range b.Filters {
		w.detail("filter: %s", f)
	}
	for _, ep := range b.Endpoints {
		how := "in plain TCP"
		if ep.HBONE {
			how = "in a tunnel to " + ep.Identity
		}
		w.detail("%s %s, %s%s", ep.Address, ep.Workload, how, after(": ", ep.Why))
	}
	if b.More > 0 {
		w.detail("and %d more endpoints", b.More)
	}
	if b.NotReady > 0 {
		w.detail("not ready: %d", b.NotReady)
	}
}

func (o *Outcome) write(w *writer) {
	if o.Forwarded {
		w.step("outcome", "forwarded")
		return
	}
	told := fmt.Sprintf("answered %d", o.Status)
	if o.GRPC != "" {
		told = "answered with grpc-status " + o.GRPC
	}
	if o.Details != "" {
		flags := ""
		if o.Flags != "-" {
			flags = o.Flags
		}
		told += fmt.Sprintf(" (%s)", strings.TrimSpace(flags+" "+o.Details))
	}
	w.step("outcome", "%s: %s", told, o.Why)
}
