package admin

import (
	"reflect"
	"strings"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/authz"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

func dumpRoutes(r *mesh.Routes) *routesDump {
	if r == nil {
		return nil
	}
	d := &routesDump{}
	if r.HTTP != nil {
		d.HTTP = dumpRules(r.HTTP.Rules())
	}
	if r.GRPC != nil {
		d.GRPC = dumpRules(r.GRPC.Rules())
	}
	if r.TLS != nil {
		d.TLS = dumpRules(r.TLS.Rules())
	}
	if r.TCP != nil {
		d.TCP = new(dumpRule(r.TCP))
	}
	return d
}

func dumpPolicies(e *authz.Engine) []policyDump {
	var dumps []policyDump
	for _, p := range e.Policies() {
		d := policyDump{Policy: p.Namespace + "/" + p.Name, Action: p.Action.String(), DryRun: p.DryRun, Invalid: p.Invalid}
		if len(p.Rules) > 0 {
			d.Rules = plainly(reflect.ValueOf(p.Rules))
		}
		dumps = append(dumps, d)
	}
	return dumps
}

func dumpRules(rules []route.Rule) []ruleDump {
	dumps := make([]ruleDump, len(rules))
	for i := range rules {
		dumps[i] = dumpRule(&rules[i])
	}
	return dumps
}

func dumpRule(r *route.Rule) ruleDump {
	d := ruleDump{Route: r.Route, Rule: r.Name, Hosts: r.Hosts, Filters: dumpFilters(r.Filters), Invalid: r.Invalid}
	for i := range r.Matches {
		d.Matches = append(d.Matches, r.Matches[i].String())
	}
	for _, b := range r.Backends {
		d.Backends = append(d.Backends, backendDump{
			Service: b.Service, Port: b.Port, Weight: b.Weight, Filters: dumpFilters(b.Filters), Invalid: b.Invalid,
		})
	}
	if r.Timeouts != (route.Timeouts{}) {
		d.Timeouts = &timeoutsDump{duration(r.Timeouts.Request), duration(r.Timeouts.BackendRequest)}
	}
	if r.Retry != nil {
		d.Retry = &retryDump{r.Retry.Attempts, duration(r.Retry.Backoff), r.Retry.Codes}
	}
	return d
}

func dumpFilters(filters []route.Filter) []filterDump {
	var dumps []filterDump
	for _, f := range filters {
		v := reflect.ValueOf(f).Elem()
		dumps = append(dumps, filterDump{v.Type().Name(), plainly(v)})
	}
	return dumps
}

// plainly makes the configuration of a filter what JSON calls plain: keys in
// lower case, nothing that is not set, durations as people write them.
func plainly(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		return plainly(v.Elem())
	case reflect.Struct:
		members := map[string]any{}
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				name := v.Type().Field(i).Name
				members[lowerFirst(name)] = plainly(f)
			}
		}
		return members
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plainly(v.Index(i))
		}
		return list
	}
	if d, ok := v.Interface().(time.Duration); ok {
		return duration(d)
	}
	return v.Interface()
}

// lowerFirst writes a field's name as JSON has it: ipBlocks for IPBlocks.
func lowerFirst(name string) string {
	n := 1
	for n+1 < len(name) && name[n] < 'a' && name[n+1] < 'a' {
		n++
	}
	return strings.ToLower(name[:n]) + name[n:]
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
