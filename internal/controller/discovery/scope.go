package discovery

import (
	"maps"
	"slices"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// scope chooses what the waypoints of one gateway need: the gateway itself, its
// routes and policies, the services it fronts and those that its routes send
// requests to, and the workloads that it fronts or that serve one of these. The
// rest of the mesh is remembered, since a route may name any service tomorrow.
type scope struct {
	gateway   *waypointv1.Gateway
	services  map[string]*service  // by resource name
	workloads map[string]*endpoint // by UID
	routes    map[string][]string  // the services that each route names

	// Since the last settling: what may be needed, or not, from now on.
	staleServices  map[*service]bool // true: its message is another one, too
	staleWorkloads map[*endpoint]bool
	out            difference
}

// difference is what a client lacks between two states.
type difference struct {
	upserted []api.Resource
	removed  []api.Key
}

// service is a service that is known or only named.
type service struct {
	name    string
	message *workload.Address // nil: only others name it
	routes  int               // that name it
	members map[*endpoint]struct{}
	needed  bool
}

// endpoint is a workload with the services that it serves.
type endpoint struct {
	uid     string
	message *workload.Address // nil: it is gone
	serves  []*service
	needed  bool
}

func newScope() *scope {
	return &scope{
		services:       make(map[string]*service),
		workloads:      make(map[string]*endpoint),
		routes:         make(map[string][]string),
		staleServices:  make(map[*service]bool),
		staleWorkloads: make(map[*endpoint]bool),
	}
}

// update takes changes of what is known, and returns what changes for the
// waypoints.
func (s *scope) update(upserted []api.Resource, removed []api.Key) difference {
	for _, key := range removed {
		s.remove(key)
	}
	for _, r := range upserted {
		s.set(r)
	}
	s.settle()
	out := s.out
	s.out = difference{}
	return out
}

func (s *scope) set(r api.Resource) {
	switch m := r.Message.(type) {
	case *waypointv1.Gateway:
		s.setGateway(m)
	case *waypointv1.Route:
		s.setRoute(r.Name, servicesOf(m))
	case *workload.Address:
		s.setAddress(r.Name, m)
		return
	}
	s.out.upserted = append(s.out.upserted, r)
}

func (s *scope) remove(key api.Key) {
	switch key.Type {
	case api.GatewayType:
		s.setGateway(nil)
	case api.RouteType:
		s.setRoute(key.Name, nil)
	case api.AddressType:
		if known := s.services[key.Name]; known != nil {
			known.message = nil
			s.staleServices[known] = true
		}
		if known := s.workloads[key.Name]; known != nil {
			s.setServes(known, nil)
			known.message = nil
		}
		return
	}
	s.out.removed = append(s.out.removed, key)
}

// setGateway asks everything anew if what is fronted may be another.
func (s *scope) setGateway(g *waypointv1.Gateway) {
	same := g.GetNamespace() == s.gateway.GetNamespace() && g.GetHostname() == s.gateway.GetHostname()
	s.gateway = g
	if same {
		return
	}
	for _, known := range s.services {
		s.touchService(known)
	}
	for _, known := range s.workloads {
		s.touchWorkload(known)
	}
}

func (s *scope) setRoute(name string, services []string) {
	for _, old := range s.routes[name] {
		known := s.service(old)
		known.routes--
		s.touchService(known)
	}
	delete(s.routes, name)
	if len(services) == 0 {
		return
	}
	s.routes[name] = services
	for _, now := range services {
		known := s.service(now)
		known.routes++
		s.touchService(known)
	}
}

func (s *scope) setAddress(name string, a *workload.Address) {
	if a.GetWorkload() == nil {
		known := s.service(name)
		known.message = a
		s.staleServices[known] = true
		return
	}
	known := s.workloads[name]
	if known == nil {
		known = &endpoint{uid: name}
		s.workloads[name] = known
	}
	known.message = a
	serves := make([]*service, 0, len(a.GetWorkload().GetServices()))
	for key := range a.GetWorkload().GetServices() {
		serves = append(serves, s.service(key))
	}
	s.setServes(known, serves)
}

func (s *scope) setServes(known *endpoint, serves []*service) {
	for _, old := range known.serves {
		delete(old.members, known)
		s.touchService(old) // nobody may know of it any more
	}
	known.serves = serves
	for _, now := range serves {
		now.members[known] = struct{}{}
	}
	s.staleWorkloads[known] = true
}

func (s *scope) service(name string) *service {
	known := s.services[name]
	if known == nil {
		known = &service{name: name, members: make(map[*endpoint]struct{})}
		s.services[name] = known
	}
	return known
}

func (s *scope) touchService(known *service) { touch(s.staleServices, known) }

func (s *scope) touchWorkload(known *endpoint) { touch(s.staleWorkloads, known) }

// touch makes something stale, if it is not already, or even another one.
func touch[T any](stale map[*T]bool, known *T) {
	if _, already := stale[known]; !already {
		stale[known] = false
	}
}

// settle decides for all that is stale whether it is needed. Services come first:
// workloads are needed for their sake.
func (s *scope) settle() {
	for known, changed := range s.staleServices {
		was := known.needed
		known.needed = known.message != nil && (known.routes > 0 || s.frontsService(known.message.GetService()))
		s.tell(was, known.needed, changed, known.name, known.message)
		if was != known.needed {
			for member := range known.members {
				s.touchWorkload(member)
			}
		}
		if known.message == nil && known.routes == 0 && len(known.members) == 0 {
			delete(s.services, known.name)
		}
	}
	clear(s.staleServices)
	for known, changed := range s.staleWorkloads {
		was := known.needed
		known.needed = known.message != nil && (s.fronts(known.message.GetWorkload().GetWaypoint()) || slices.ContainsFunc(known.serves, isNeeded))
		s.tell(was, known.needed, changed, known.uid, known.message)
		if known.message == nil {
			delete(s.workloads, known.uid)
		}
	}
	clear(s.staleWorkloads)
}

func isNeeded(s *service) bool { return s.needed }

func (s *scope) fronts(w *workload.GatewayAddress) bool {
	return s.gateway != nil && s.gateway.Fronts(w)
}

func (s *scope) frontsService(m *workload.Service) bool {
	return s.fronts(m.GetWaypoint()) || slices.ContainsFunc(m.GetWeightedWaypoints(), func(w *workload.WeightedWaypoint) bool { return s.fronts(w.GetDestination()) })
}

// tell adds an address to the difference if it makes one.
func (s *scope) tell(was, needed, changed bool, name string, m *workload.Address) {
	key := api.Key{Type: api.AddressType, Name: name}
	switch {
	case needed && (changed || !was):
		s.out.upserted = append(s.out.upserted, api.Resource{Key: key, Message: m})
	case was && !needed:
		s.out.removed = append(s.out.removed, key)
	}
}

// servicesOf are the resource names of the services that a route sends requests
// to, mirrored ones included.
func servicesOf(r *waypointv1.Route) []string {
	found := make(map[string]struct{})
	mirrors := func(filters []*waypointv1.Filter) {
		for _, f := range filters {
			if m := f.GetMirror(); m != nil {
				found[m.GetService().Key()] = struct{}{}
			}
		}
	}
	for _, rule := range r.GetRules() {
		mirrors(rule.GetFilters())
		for _, b := range rule.GetBackends() {
			mirrors(b.GetFilters())
			if service := b.GetService(); service != nil {
				found[service.Key()] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
