package admin

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

const hostname = "reviews.bookinfo.svc.cluster.local"

// published is a store with one service, two workloads, a route and a rejected object.
func published() *mesh.Store {
	store := new(mesh.Store)
	b := mesh.NewBuilder(store)
	key := "bookinfo/" + hostname
	b.Set(&mesh.GatewaySpec{Gateway: mesh.Gateway{
		Namespace: "bookinfo", Name: "waypoint", ServesServices: true, Trust: identity.Trust{Domain: "cluster.local"},
	}, Key: "bookinfo/waypoint.bookinfo.svc.cluster.local"})
	b.Set(&mesh.ServiceSpec{
		Key: key, Name: "reviews", Namespace: "bookinfo", Hostname: hostname, VIPs: []netip.Addr{netip.MustParseAddr("10.96.0.20")},
		Waypoints: []string{"bookinfo/waypoint.bookinfo.svc.cluster.local"}, Locality: mesh.PreferZone,
		Ports: []mesh.PortSpec{{Number: 9080, Name: "http", Protocol: mesh.HTTP1}},
	})
	for i, name := range []string{"reviews-v2", "reviews-v1"} {
		b.Set(&mesh.WorkloadSpec{
			UID: "Kubernetes//Pod/bookinfo/" + name, Namespace: "bookinfo", Name: name, Ready: true, HBONE: true,
			Addrs:    []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(9 - i)})},
			Identity: identity.ID{TrustDomain: "cluster.local", Namespace: "bookinfo", ServiceAccount: "reviews"},
			Serves:   map[string][]mesh.PortMapping{key: {{Service: 9080, Target: 8080}}},
		})
	}
	b.Set(&mesh.RouteSpec{
		Type: mesh.HTTPRoute, Namespace: "bookinfo", Name: "reviews", Parents: []mesh.RouteParent{{Service: key}},
		Rules: []route.Rule{{
			Route: "HTTPRoute bookinfo/reviews", Name: "0",
			Matches:  []route.Match{{Path: route.PathMatch{Kind: route.PathPrefix, Value: "/reviews"}}},
			Filters:  []route.Filter{&route.HeaderModifier{Set: []route.Field{{Name: "x-a", Value: "b"}}}},
			Backends: []route.Backend{{Service: key, Port: 9080, Weight: 1}},
			Timeouts: route.Timeouts{Request: 2 * time.Second},
			Retry:    &route.Retry{Attempts: 3, Codes: []int{503}},
		}},
	})
	b.Reject("HTTPRoute bookinfo/broken", "spec.rules[0]: unknown field \"mathces\"")
	b.Publish()
	return store
}

const wantService = `{
  "namespace": "bookinfo",
  "name": "reviews",
  "hostname": "reviews.bookinfo.svc.cluster.local",
  "addresses": ["10.96.0.20"],
  "attached": true,
  "locality": "PreferZone",
  "ports": [{
    "number": 9080,
    "name": "http",
    "protocol": "http",
    "endpoints": [
      {"address": "10.1.0.8:8080", "workload": "Kubernetes//Pod/bookinfo/reviews-v1", "identity": "spiffe://cluster.local/ns/bookinfo/sa/reviews", "hbone": true, "inFlight": 0},
      {"address": "10.1.0.9:8080", "workload": "Kubernetes//Pod/bookinfo/reviews-v2", "identity": "spiffe://cluster.local/ns/bookinfo/sa/reviews", "hbone": true, "inFlight": 0}
    ],
    "routes": {"http": [{
      "route": "HTTPRoute bookinfo/reviews",
      "rule": "0",
      "matches": ["/reviews/*"],
      "filters": [{"type": "HeaderModifier", "config": {"set": [{"name": "x-a", "value": "b"}]}}],
      "backends": [{"service": "bookinfo/reviews.bookinfo.svc.cluster.local", "port": 9080, "weight": 1}],
      "timeouts": {"request": "2s"},
      "retry": {"attempts": 3, "codes": [503]}
    }]}
  }]
}`

func decode(t *testing.T, body string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

func TestSnapshotOfService(t *testing.T) {
	h := Handler(Options{Store: published()})
	for _, name := range []string{"bookinfo/reviews", "bookinfo/" + hostname} {
		status, body := ask(h, "GET", "/snapshot?service="+name, "")
		if status != 200 {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if diff := cmp.Diff(decode(t, wantService), decode(t, body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSnapshot(t *testing.T) {
	_, body := ask(Handler(Options{Store: published()}), "GET", "/snapshot", "")
	got := decode(t, body)
	if diff := cmp.Diff([]any{decode(t, wantService)}, got["services"]); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	delete(got, "services")
	want := decode(t, `{
		"version": 1,
		"gateway": {"namespace": "bookinfo", "name": "waypoint", "servesServices": true, "servesWorkloads": false, "trustDomain": "cluster.local"},
		"rejected": [{"object": "HTTPRoute bookinfo/broken", "reason": "spec.rules[0]: unknown field \"mathces\""}],
		"conflicts": [],
		"workloads": [
			{"uid": "Kubernetes//Pod/bookinfo/reviews-v1", "namespace": "bookinfo", "name": "reviews-v1", "addresses": ["10.1.0.8"],
				"identity": "spiffe://cluster.local/ns/bookinfo/sa/reviews", "hbone": true, "ready": true, "attached": false},
			{"uid": "Kubernetes//Pod/bookinfo/reviews-v2", "namespace": "bookinfo", "name": "reviews-v2", "addresses": ["10.1.0.9"],
				"identity": "spiffe://cluster.local/ns/bookinfo/sa/reviews", "hbone": true, "ready": true, "attached": false}
		]
	}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if strings.Contains(body, "null") {
		t.Errorf("null in %s", body)
	}
}

func TestFilters(t *testing.T) {
	got, err := json.Marshal(dumpFilters([]route.Filter{
		&route.Rewrite{Hostname: "b.example", Path: &route.PathRewrite{Full: true, Value: "/x"}},
		&route.CORS{AllowOrigins: []string{"*"}, MaxAge: time.Hour},
	}))
	want := `[{"type":"Rewrite","config":{"hostname":"b.example","path":{"full":true,"value":"/x"}}},` +
		`{"type":"CORS","config":{"allowOrigins":["*"],"maxAge":"1h0m0s"}}]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestExplain(t *testing.T) {
	_, body := ask(Handler(Options{Store: published()}), "POST", "/explain", question)
	got := decode(t, body)
	if got["snapshot"] != 1. || got["path"] != "/reviews/7" || got["route"].(map[string]any)["route"] != "HTTPRoute bookinfo/reviews" {
		t.Errorf("answer %s", body)
	}
}
