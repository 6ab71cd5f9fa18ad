package kubectl

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Snapshot is the configuration of a running waypoint, or one service of it. As
// data it is just what the waypoint says.
type Snapshot struct {
	raw  json.RawMessage
	read snapshot
}

// What of it is shown to people, see docs/admin.md.
type (
	snapshot struct {
		Version   uint64    `json:"version"`
		Services  []service `json:"services"`
		Rejected  []problem `json:"rejected"`
		Conflicts []problem `json:"conflicts"`
	}
	problem struct {
		Object string `json:"object"`
		Reason string `json:"reason"`
	}
	service struct {
		Namespace string `json:"namespace"`
		Hostname  string `json:"hostname"`
		Attached  bool   `json:"attached"`
		Ports     []port `json:"ports"`
	}
	port struct {
		Number         uint16             `json:"number"`
		Protocol       string             `json:"protocol"`
		Endpoints      []json.RawMessage  `json:"endpoints"`
		Routes         *routes            `json:"routes"`
		ConsumerRoutes map[string]*routes `json:"consumerRoutes"`
		Policies       []policy           `json:"policies"`
	}
	routes struct {
		HTTP []rule `json:"http"`
		GRPC []rule `json:"grpc"`
		TLS  []rule `json:"tls"`
		TCP  *rule  `json:"tcp"`
	}
	rule struct {
		Route string `json:"route"`
	}
	policy struct {
		Policy  string `json:"policy"`
		Action  string `json:"action"`
		DryRun  bool   `json:"dryRun"`
		Invalid string `json:"invalid"`
	}
)

// ReadSnapshot reads what a waypoint's admin port says; of one service, if that was
// asked for.
func ReadSnapshot(raw []byte, one bool) (*Snapshot, error) {
	s := &Snapshot{raw: raw}
	var into any = &s.read
	if one {
		s.read.Services = make([]service, 1)
		into = &s.read.Services[0]
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("what the waypoint answers is no snapshot: %w", err)
	}
	return s, nil
}

// MarshalJSON gives what the waypoint said.
func (s *Snapshot) MarshalJSON() ([]byte, error) { return s.raw, nil }

// WriteText writes a line for each port, and what is wrong below.
func (s *Snapshot) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tFRONTED\tPORT\tPROTOCOL\tENDPOINTS\tROUTES\tPOLICIES")
	for _, svc := range s.read.Services {
		for _, p := range svc.Ports {
			fmt.Fprintf(t, "%s/%s\t%s\t%d\t%s\t%d\t%s\t%s\n", svc.Namespace, svc.Hostname, yesNo(svc.Attached), p.Number, p.Protocol,
				len(p.Endpoints), orDash(p.routeNames()), orDash(p.policyNames()))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range slices.Concat(s.read.Rejected, s.read.Conflicts) {
		fmt.Fprintf(w, "! %s: %s\n", p.Object, p.Reason)
	}
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// routeNames lists the routes of a port, those for one namespace's clients with its
// name.
func (p *port) routeNames() string {
	names := p.Routes.names()
	for _, namespace := range slices.Sorted(maps.Keys(p.ConsumerRoutes)) {
		for _, name := range p.ConsumerRoutes[namespace].names() {
			names = append(names, name+" (clients of "+namespace+")")
		}
	}
	return strings.Join(names, ", ")
}

func (r *routes) names() []string {
	if r == nil {
		return nil
	}
	var names []string
	for _, rule := range slices.Concat(r.HTTP, r.GRPC, r.TLS) {
		names = append(names, rule.Route)
	}
	if r.TCP != nil {
		names = append(names, r.TCP.Route)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *port) policyNames() string {
	var names []string
	for _, policy := range p.Policies {
		text := policy.Action + " " + policy.Policy
		switch {
		case policy.Invalid != "":
			text += " (invalid: denies everything)"
		case policy.DryRun:
			text += " (dry run)"
		}
		names = append(names, text)
	}
	return strings.Join(names, ", ")
}
