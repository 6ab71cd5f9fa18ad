package kubectl

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the status for people: of each waypoint what it is, what it has,
// and what goes around it; then what does nothing at all.
func (s *Status) WriteText(w io.Writer) error {
	p := printer{tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
	for i := range s.Waypoints {
		if i > 0 {
			p.line("")
		}
		p.waypoint(&s.Waypoints[i])
	}
	if len(s.Idle) > 0 {
		p.section("Does nothing")
		for _, f := range s.Idle {
			p.line("  %s: %s", f.Object, f.Message)
		}
	}
	if len(s.Unseen) > 0 {
		p.section("Not seen, for want of rights to list them, so that some of this may be wrong: " + strings.Join(s.Unseen, ", "))
	}
	return p.t.Flush()
}

type printer struct{ t *tabwriter.Writer }

func (p printer) line(format string, args ...any) { fmt.Fprintf(p.t, format+"\n", args...) }

// section starts something that has columns of its own.
func (p printer) section(title string) { p.line("\n%s", title) }

func (p printer) waypoint(s *WaypointStatus) {
	p.line("Waypoint %s/%s of class %s, for traffic of type %s, revision %s", s.Namespace, s.Name, s.Class, s.Traffic, s.Revision)
	p.line("")
	for _, c := range s.Conditions {
		p.line("  %s\t%s\t%s: %s", c.Type, c.Status, c.Reason, orDash(c.Message))
	}
	p.line("  Pods\t%d/%d\tready", s.Ready, s.Pods)
	for _, f := range s.NotReady {
		p.line("  \t\t%s: %s", f.Object, f.Message)
	}
	if len(s.Services)+len(s.Routes)+len(s.Policies) == 0 {
		p.section(fmt.Sprintf("No service uses it yet: 'kubectl label namespace %s %s=%s'", s.Namespace, labelUse, s.Name))
	}
	p.services(s.Services)
	p.routes(s.Routes)
	p.policies(s.Policies, s.Around)
	if len(s.Around) > 0 {
		p.section("Goes around it")
		for _, a := range s.Around {
			p.line("  %s", a)
		}
	}
}

func (p printer) services(list []Service) {
	if len(list) == 0 {
		return
	}
	p.section("Services")
	for _, s := range list {
		if s.Bound {
			p.line("  %s\tbound", s.Object)
		} else {
			p.line("  %s\tnot bound\t%s", s.Object, s.Message)
		}
	}
}

// routes has a line for each parent that is in force, and one for each thing that is
// wrong with the others.
func (p printer) routes(list []Route) {
	if len(list) == 0 {
		return
	}
	p.section("Routes")
	for _, r := range list {
		remarks := r.remarks()
		if len(remarks) == 0 {
			remarks = []string{"in force"}
		}
		for i, remark := range remarks {
			if i == 0 {
				p.line("  %s\tat %s\t%s", r.Object, r.Parent, remark)
			} else {
				p.line("  \t\t%s", remark)
			}
		}
	}
}

// remarks are what is not as it should be at a parent.
func (r *Route) remarks() (list []string) {
	for _, c := range r.Conditions {
		switch {
		case c.Status != "True":
			list = append(list, c.Type+" "+c.Status+": "+c.Reason+": "+orDash(c.Message))
		case c.Type == "Accepted" && c.Message != "In force":
			list = append(list, "in force, but: "+c.Message)
		}
	}
	return list
}

// policies leave out of the controller's sentence what the section on what goes
// around the waypoint says of all of them.
func (p printer) policies(list []Policy, around []string) {
	if len(list) == 0 {
		return
	}
	p.section("Policies")
	for _, policy := range list {
		message := policy.Condition.Message
		for _, a := range around {
			message = strings.TrimSuffix(message, ". But "+a)
		}
		p.line("  %s\t%s: %s", policy.Object, policy.Condition.Reason, orDash(message))
	}
}
