package api_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		message proto.Message
		want    string
	}{
		{&workload.Service{Namespace: "ns", Hostname: "a.example.com"}, "istio.workload.Address ns/a.example.com"},
		{&workload.Workload{Uid: workload.PodUID("c", "ns", "p")}, "istio.workload.Address c//Pod/ns/p"},
		{&waypointv1.Gateway{Namespace: "ns", Name: "g"}, "waypoint.v1.Gateway ns/g"},
		{&waypointv1.Route{Kind: waypointv1.RouteKind_TLS_ROUTE, Namespace: "ns", Name: "r"}, "waypoint.v1.Route TLSRoute/ns/r"},
		{&waypointv1.AuthorizationPolicy{Namespace: "ns", Name: "p"}, "waypoint.v1.AuthorizationPolicy ns/p"},
	} {
		r := api.Of(tt.message)
		if r.String() != tt.want {
			t.Errorf("%T is %s, want %s", tt.message, r.Key, tt.want)
		}
		if m := api.New(r.Type); m == nil || m.ProtoReflect().Descriptor() != r.Message.ProtoReflect().Descriptor() {
			t.Errorf("New(%s) gives %T", r.Type, m)
		}
	}
}

func TestNewKnowsAllTypes(t *testing.T) {
	for _, typeURL := range api.Types() {
		if m := api.New(typeURL); m == nil || "type.googleapis.com/"+string(m.ProtoReflect().Descriptor().FullName()) != typeURL {
			t.Errorf("New(%s) gives %T", typeURL, m)
		}
	}
	if m := api.New("type.googleapis.com/other"); m != nil {
		t.Errorf("an unknown type gives %T", m)
	}
}

func TestFronts(t *testing.T) {
	g := &waypointv1.Gateway{Namespace: "ns", Hostname: "g.ns.svc.cluster.local"}
	named := func(namespace, host string) *workload.GatewayAddress {
		return &workload.GatewayAddress{Destination: &workload.GatewayAddress_Hostname{
			Hostname: &workload.NamespacedHostname{Namespace: namespace, Hostname: host},
		}}
	}
	if !g.Fronts(named("ns", "g.ns.svc.cluster.local")) {
		t.Error("it does not know its own name")
	}
	for _, other := range []*workload.GatewayAddress{nil, {}, named("ns", "h"), named("other", "g.ns.svc.cluster.local")} {
		if g.Fronts(other) {
			t.Errorf("it takes %v for itself", other)
		}
	}
}
