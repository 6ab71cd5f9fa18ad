package explain

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Explain answers q by a snapshot. The error is for a question that cannot be
// understood, and names the field.
func Explain(snap *mesh.Snapshot, q Question) (*Answer, error) {
	caller, err := q.caller()
	if err != nil {
		return nil, err
	}
	d, notServed, err := q.destination(snap)
	if err != nil {
		return nil, err
	}
	a := &Answer{Question: q, Version: snap.Version}
	if notServed != nil {
		a.Outcome = Outcome{Status: 404, Why: notServed.Error() + ". The CONNECT is refused"}
		return a, nil
	}
	a.Destination = destinationOf(&d)
	t := telling{Answer: a, snap: snap, dest: &d, caller: caller}
	if t.isHTTP() {
		t.request()
	} else {
		t.connection()
	}
	return a, nil
}

// telling is an answer in the making.
type telling struct {
	*Answer
	snap   *mesh.Snapshot
	dest   *decide.Destination
	caller decide.Caller
	grpc   bool // the client is told a gRPC status
	// preflight: a CORS filter answers the request.
	preflight bool
	routed    *mesh.Routes // that were asked
}

func destinationOf(d *decide.Destination) *Destination {
	out := &Destination{Port: d.Dialled.Port()}
	if d.Port != nil {
		out.Service = d.Port.Service.Key
	} else {
		out.Workload = d.Workload.Namespace + "/" + d.Workload.Name
	}
	return out
}

// isHTTP says what is inside, as the declaration has it, else as the question has.
func (t *telling) isHTTP() bool {
	switch p := t.dest.Protocol(); {
	case p.IsHTTP():
		t.Protocol = p.String() + ", as the port declares"
		return true
	case p != mesh.Sniff:
		t.Protocol = p.String() + ", as the port declares: what is inside is not looked at"
		return false
	}
	const undeclared = ", as the first bytes show: the port declares nothing"
	switch {
	case t.Question.Method != "":
		t.Protocol = "http" + undeclared
		return true
	case t.Question.SNI != "":
		t.Protocol = "tls" + undeclared
	default:
		t.Protocol = "tcp" + undeclared
	}
	return false
}

// request tells of one HTTP request.
func (t *telling) request() {
	r, err := t.Question.request(t.caller)
	if err != nil {
		t.Outcome = Outcome{Status: 400, Why: err.Error()}
		return
	}
	t.Path, t.grpc = r.Path, r.GRPC
	decision, steps := decide.ExplainAllow(t.dest, &r)
	t.Policy = policyOf(decision, steps)
	// Which backend is drawn does not matter: all are told.
	v := decide.HTTP(t.snap, t.dest, &r, 0)
	if decision.Allowed && t.dest.Port != nil {
		t.routes(decide.RoutesFor(t.dest.Port, t.caller.Peer), &r, &v)
	}
	t.finish(&v)
}

// connection tells of a connection whose inside is opaque.
func (t *telling) connection() {
	decision, steps := decide.ExplainConnection(t.dest, &t.caller)
	t.Policy = policyOf(decision, steps)
	if !decision.Allowed {
		t.Outcome = Outcome{Status: 403, Details: decision.Details, Why: decision.Reason.String()}
		return
	}
	v := decide.Verdict{Port: t.dest.Port}
	switch {
	case t.dest.Port == nil:
	case t.Question.SNI != "":
		v = decide.TLS(t.snap, t.dest, &t.caller, 0)
	default:
		v = decide.TCP(t.snap, t.dest, &t.caller, 0)
	}
	if v.Rule != nil {
		t.Route = &Route{Routes: t.whose(decide.RoutesFor(t.dest.Port, t.caller.Peer)), Route: v.Rule.Route, Rule: v.Rule.Name}
	}
	t.finish(&v)
}

func policyOf(d authz.Decision, steps []authz.Step) *Policy {
	return &Policy{Allowed: d.Allowed, Reason: d.Reason.String(), Policy: d.Policy, Rule: d.Rule, Audit: d.Audit, Steps: steps}
}

// whose says whose routes hold.
func (t *telling) whose(routes *mesh.Routes) string {
	switch {
	case routes == nil:
		return "none: straight to the port"
	case routes == t.dest.Port.Consumer[t.caller.Peer.Namespace]:
		return "those of the client's namespace " + t.caller.Peer.Namespace
	}
	return "those of the service"
}

// routes tells which rule a request follows.
func (t *telling) routes(routes *mesh.Routes, r *decide.Request, v *decide.Verdict) {
	t.routed = routes
	t.Route = &Route{Routes: t.whose(routes)}
	t.Route.Tried, t.Route.More = decide.ExplainRoute(routes, r)
	if v.Rule == nil {
		return
	}
	t.Route.Route, t.Route.Rule, t.Route.Match = v.Rule.Route, v.Rule.Name, v.Match.String()
	if v.Rule.Invalid == "" {
		t.Route.Filters = t.filters(v.Rule.Filters, r, v.Match)
		t.Route.Timeouts, t.Route.Retry = timeouts(v.Rule.Timeouts), retry(v.Rule.Retry)
	}
	t.preflight = answersPreflight(v.Rule, r)
}

// answersPreflight reports whether a filter of the rule answers r, which asks for
// permission to be sent.
func answersPreflight(rule *route.Rule, r *decide.Request) bool {
	isCORS := func(f route.Filter) bool { _, ok := f.(*route.CORS); return ok }
	return rule.Invalid == "" && route.IsPreflight(r.Method, r.Headers) && slices.ContainsFunc(rule.Filters, isCORS)
}

// timeouts says in words what a rule grants.
func timeouts(limits route.Timeouts) string {
	var told []string
	if d := limits.Request; d > 0 {
		told = append(told, fmt.Sprintf("%v for the request", d))
	}
	if d := limits.BackendRequest; d > 0 {
		told = append(told, fmt.Sprintf("%v for each attempt", d))
	}
	return strings.Join(told, ", ")
}

// retry says in words what a rule sends again.
func retry(r *route.Retry) string {
	switch {
	case r == nil:
		return ""
	case r.Attempts == 0:
		return "none"
	case len(r.Codes) == 0:
		return fmt.Sprintf("up to %d more attempts", r.Attempts)
	}
	codes := make([]string, len(r.Codes))
	for i, code := range r.Codes {
		codes[i] = strconv.Itoa(code)
	}
	return fmt.Sprintf("up to %d more attempts, also after an answer of %s", r.Attempts, strings.Join(codes, ", "))
}

// finish tells where it ends: with an answer of ours, or at endpoints.
func (t *telling) finish(v *decide.Verdict) {
	switch {
	case t.dest.Port == nil && v.Reply == nil:
		t.Backends = []Backend{t.workloadBackend()}
	case t.preflight: // it goes to none
	case v.Rule != nil && v.Rule.Invalid == "":
		t.Backends = t.backends(v)
	case v.Reply == nil:
		t.Backends = []Backend{t.portBackend(v.Port)}
	}
	t.Outcome = t.outcome(v)
}

func (t *telling) outcome(v *decide.Verdict) Outcome {
	if t.preflight {
		return Outcome{Status: http.StatusOK, Details: "cors_preflight", Why: "a CORS filter answers what a browser asks before the request"}
	}
	if status, ok := redirectStatus(v.Rule); ok && v.Reply == nil {
		return Outcome{Status: status, Why: "a filter redirects the client"}
	}
	reply := v.Reply
	if reply != nil && len(t.Backends) > 1 && v.Backend != nil {
		reply = nil // of the backend that was drawn: each tells its own
	}
	if reply != nil {
		out := Outcome{Status: reply.Status, Flags: reply.Flags.String(), Details: reply.Details, Why: t.why(v)}
		if t.grpc {
			out.GRPC = strconv.Itoa(reply.GRPC)
		}
		return out
	}
	for _, b := range t.Backends {
		if b.Why == "" {
			return Outcome{Forwarded: true}
		}
	}
	out := Outcome{Status: 503, Flags: "UH", Details: "no_healthy_upstream", Why: t.Backends[0].Why}
	if t.grpc {
		out.GRPC = "14" // UNAVAILABLE
	}
	return out
}

// why says in words why there is an answer of ours.
func (t *telling) why(v *decide.Verdict) string {
	switch {
	case !t.Policy.Allowed:
		return t.Policy.Reason
	case v.Rule == nil && !t.grpc && t.routed != nil && t.routed.HTTP == nil:
		return "there are GRPCRoutes alone, and the request has not the content type of gRPC"
	case v.Rule == nil:
		return "there are routes, and none of their rules matches"
	case v.Rule.Invalid != "":
		return v.Rule.Route + " is not valid: " + v.Rule.Invalid
	case len(t.Backends) > 0:
		return cmp.Or(t.Backends[0].Why, v.Reply.Details)
	}
	return v.Rule.Route + " has no backend with a weight"
}

func redirectStatus(r *route.Rule) (int, bool) {
	if r == nil {
		return 0, false
	}
	for _, f := range r.Filters {
		if f, ok := f.(*route.Redirect); ok {
			return f.Status, true
		}
	}
	return 0, false
}

// filters says in words what filters do to r.
func (t *telling) filters(list []route.Filter, r *decide.Request, m *route.Match) (told []string) {
	for _, f := range list {
		switch f := f.(type) {
		case *route.HeaderModifier:
			told = append(told, f.String())
		case *route.Redirect:
			called := route.Called{Scheme: "http", Host: r.Host, Port: t.dest.Port.Number, Path: r.Path, Query: r.Query}
			told = append(told, fmt.Sprintf("answer %d with location %s", f.Status, f.Location(called, m)))
		case *route.Rewrite:
			told = append(told, rewritten(f, r, m))
		case *route.Mirror:
			told = append(told, fmt.Sprintf("send a copy of %d in %d requests to %s port %d", f.Numerator, f.Denominator, f.Backend.Service, f.Backend.Port))
		case *route.CORS:
			told = append(told, fmt.Sprintf("CORS for origins %q", f.AllowOrigins))
		}
	}
	return told
}

func rewritten(f *route.Rewrite, r *decide.Request, m *route.Match) string {
	told := "rewrite"
	if f.Hostname != "" {
		told += " the host to " + f.Hostname
	}
	if f.Path != nil {
		told += " the path to " + f.Path.Apply(r.Path, m)
	}
	return told
}
