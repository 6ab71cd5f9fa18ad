package xds

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/compile"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// held is a resource that the builder has.
type held struct {
	version string // empty: it was refused, and there was no good one
	value   []byte // as received; nil where nothing is saved
	refused string // the newer version that was; empty: none was
}

// change is a resource that came, compiled, or that went.
type change struct {
	key     api.Key
	removed bool
	version string
	value   []byte
	part    mesh.Part // with a fault one that fails closed, or nil
	fault   error     // what is wrong with it, by name
}

// read decodes, checks and compiles a resource.
func (s *Source) read(typeURL, name, version string, value []byte) change {
	c := change{key: api.Key{Type: typeURL, Name: name}, version: version}
	if s.saver != nil {
		c.value = value
	}
	r, err := s.decode(c.key, value)
	if err != nil {
		c.fault = fmt.Errorf("%s: %w", c.key, err)
		r = salvage(c.key, c.fault)
	}
	if r.Message == nil {
		return c
	}
	part, fault := compile.Part(r)
	c.part = part
	if c.fault == nil {
		c.fault = fault
	}
	return c
}

func (s *Source) decode(key api.Key, value []byte) (api.Resource, error) {
	m := api.New(key.Type)
	if m == nil {
		return api.Resource{}, errors.New("not a type that was asked for")
	}
	if err := proto.Unmarshal(value, m); err != nil {
		return api.Resource{}, fmt.Errorf("cannot be decoded: %w", err)
	}
	r := api.Of(m)
	switch {
	case r.Name != key.Name:
		return r, fmt.Errorf("calls itself %q within", r.Name)
	case key.Type == api.GatewayType && key.Name != s.o.Gateway:
		return r, fmt.Errorf("we are the waypoint of %s", s.o.Gateway)
	}
	return r, nil
}

// salvage stands in for a resource of which only the name can be read. A policy
// may have denied anything in its namespace, so there it denies everything; of a
// route nobody knows whose it was.
func salvage(key api.Key, fault error) api.Resource {
	namespace, name, ok := strings.Cut(key.Name, "/")
	if key.Type != api.AuthorizationPolicyType || !ok {
		return api.Resource{}
	}
	return api.Of(&waypointv1.AuthorizationPolicy{
		Namespace: namespace, Name: name, Rejected: fault.Error(),
		Targets: []*waypointv1.AuthorizationPolicy_Target{{
			Kind: &waypointv1.AuthorizationPolicy_Target_Namespace{Namespace: namespace},
		}},
	})
}

// commit brings changes into force as one. With them, everything is there that
// the controller, or the file, has.
func (s *Source) commit(changes []change) {
	changes = slices.DeleteFunc(changes, s.refusedBefore)
	before := s.store.Load()
	s.mu.Lock()
	for _, c := range changes {
		s.enter(c)
	}
	s.mu.Unlock()
	snap := s.builder.Publish()
	took := snap != before
	s.mu.Lock()
	if took && s.isWhole() {
		s.stats.Updates++
	}
	if took {
		s.stats.Last = time.Now()
	}
	s.mu.Unlock()
	s.logRejected(changes)
	if !s.isWhole() {
		s.complete(snap)
	}
	if s.saver != nil && s.isWhole() && len(changes) > 0 {
		s.saver.changed()
	}
}

// refusedBefore finds what is sent again after a new connection, so that the
// controller hears again what is wrong with it. That is no news to us.
func (s *Source) refusedBefore(c change) bool {
	return c.fault != nil && c.version != "" && c.version == s.held[c.key].refused
}

// complete notes that there is a whole configuration, if there is.
func (s *Source) complete(snap *mesh.Snapshot) {
	if snap.Gateway.Name == "" {
		s.o.Waiting("the controller does not know Gateway " + s.o.Gateway + ", or refuses it: see its status")
		return
	}
	s.log.Info("configuration loaded", "services", len(snap.Services), "rejected", len(snap.Rejected))
	close(s.whole)
}

// enter tells the builder of one change.
func (s *Source) enter(c change) {
	was := s.held[c.key]
	switch {
	case c.removed:
		for _, part := range compile.Keys(c.key) {
			s.builder.Remove(part)
		}
		delete(s.held, c.key)
	case c.fault == nil:
		s.builder.Set(c.part)
		s.held[c.key] = held{version: c.version, value: c.value}
	case was.version != "": // the last good version stays
		was.refused = c.version
		s.held[c.key] = was
	default:
		if c.part != nil {
			s.builder.Set(c.part)
		}
		s.held[c.key] = held{value: c.value, refused: c.version}
	}
	reason := ""
	if c.fault != nil {
		reason = c.fault.Error()
	}
	s.builder.Reject(object(c.key), reason)
}

// logRejected logs what is wrong with what came.
func (s *Source) logRejected(changes []change) {
	for _, c := range changes {
		if c.fault != nil {
			s.log.Error("a resource is refused: its last good version stays, or else it fails closed", "reason", c.fault)
		}
	}
}

// object names a resource as the author of what it was made of does:
// "HTTPRoute default/reviews".
func object(key api.Key) string {
	switch key.Type {
	case api.RouteType:
		return strings.Replace(key.Name, "/", " ", 1)
	case api.AuthorizationPolicyType:
		return "AuthorizationPolicy " + key.Name
	case api.GatewayType:
		return "Gateway " + key.Name
	}
	return key.String()
}

// versions are those of all that we have, by type and name. What was refused and
// has no good version has an empty one: we want to be sent it again, and to be told
// if it is gone.
func (s *Source) versions() map[string]map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[string]map[string]string)
	for key, h := range s.held {
		if known[key.Type] == nil {
			known[key.Type] = make(map[string]string)
		}
		known[key.Type][key.Name] = h.version
	}
	return known
}
