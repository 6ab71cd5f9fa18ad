package translate

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

const meshBase = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {istio.io/use-waypoint: waypoint}}`

func serviceDoc(i int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: s%d, namespace: default}
spec: {clusterIP: 10.0.%d.%d, selector: {app: s%d}, ports: [{name: http, port: 80}]}`, i, i/250, i%250+1, i)
}

func podDoc(i int, ready string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p%d, namespace: default, labels: {app: s%d, tier: x}}
status: {podIP: 10.1.%d.%d, conditions: [{type: Ready, status: "%s"}]}`, i, i, i/250, i%250+1, ready)
}

func routeDoc(i, service int, header string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r%d, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: s%d}]
  rules:
  - matches: [{path: {value: /r%d}}]
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-r, value: "%s"}]}}]
    backendRefs: [{name: s%d, port: 80}]`, i, service, i, header, service)
}

// mesh loads n services, each with a pod and two routes.
func mesh(t testing.TB, n int) *Translator {
	tr := New(testOptions)
	docs := []string{meshBase}
	for i := range n {
		docs = append(docs, serviceDoc(i), podDoc(i, "True"), routeDoc(2*i, i, "a"), routeDoc(2*i+1, i, "a"))
	}
	load(t, tr, strings.Join(docs, "\n---\n"))
	return tr
}

// TestRecomputesWhatIsTouched counts the outputs that one change costs in a mesh of 50 services.
func TestRecomputesWhatIsTouched(t *testing.T) {
	const all = 2 + 50*4
	tests := []struct {
		name       string
		change     string
		recomputed int
		upserted   []string
	}{
		{"a route", routeDoc(7, 3, "b"), 1, []string{"HTTPRoute/default/r7"}},
		{"a route, as it was", routeDoc(7, 3, "a"), 1, nil},
		{"a pod", podDoc(3, "False"), 1, []string{"Kubernetes//Pod/default/p3"}},
		{
			"a service: itself, its pod, its two routes", strings.Replace(serviceDoc(3), "port: 80", "port: 80, appProtocol: grpc", 1), 4,
			[]string{"default/s3.default.svc.cluster.local"},
		},
		{"a first slice: its service, its podless endpoints, the pod it takes over", `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s3-x, namespace: default, labels: {kubernetes.io/service-name: s3}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.4], targetRef: {kind: Pod, name: p3}}]`, 3, []string{"Kubernetes//Pod/default/p3"}},
		{"a policy", `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: default}
spec: {targetRefs: [{group: "", kind: Service, name: s3}], rules: [{}]}`, 1, []string{"default/p"}},
		{"another use-waypoint label: what changes it is only its being the first or last", `apiVersion: v1
kind: Namespace
metadata: {name: other, labels: {istio.io/use-waypoint: x}}`, 0, nil},
		{"an unrelated pod", strings.ReplaceAll(podDoc(999, "True"), "s999", "nobody"), 1, []string{"Kubernetes//Pod/default/p999"}},
		{"the gateway: everything that asked whether it is attached", strings.Replace(strings.SplitN(meshBase, "\n---\n", 2)[0],
			"{gatewayClassName", "{addresses: [], gatewayClassName", 1), all, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := load(t, mesh(t, 50), tt.change)
			if c.Recomputed != tt.recomputed {
				t.Errorf("recomputed %d, want %d", c.Recomputed, tt.recomputed)
			}
			var names []string
			for _, r := range c.Upserted {
				names = append(names, r.Name)
			}
			if !slices.Equal(names, tt.upserted) || len(c.Removed) > 0 {
				t.Errorf("upserted %v, removed %v; want %v", names, c.Removed, tt.upserted)
			}
		})
	}
}

// TestLastGoodVersionStays follows one route and one policy through good, bad and good again.
func TestLastGoodVersionStays(t *testing.T) {
	tr := mesh(t, 1)
	key := Key{kindHTTPRoute, "default", "r0"}

	c := load(t, tr, strings.Replace(routeDoc(0, 0, "b"), "/r0", "r0", 1))
	if len(c.Upserted) != 0 || len(c.Problems[key]) != 1 {
		t.Fatalf("a bad update gave %v and problems %v; want the old version and one problem", c.Upserted, c.Problems)
	}
	if got := tr.Problems(key)[0].String(); got !=
		`HTTPRoute default/r0: spec.rules[0].matches[0].path.value: must start with "/", got "r0"` {
		t.Errorf("problem: %s", got)
	}
	c = load(t, tr, strings.Replace(routeDoc(0, 0, "b"), "filters", "filter", 1))
	if len(c.Upserted) != 0 || len(c.Problems[key]) != 1 {
		t.Fatalf("an update that does not decode gave %v and problems %v", c.Upserted, c.Problems)
	}
	c = load(t, tr, routeDoc(0, 0, "c"))
	if len(c.Upserted) != 1 || len(c.Problems) != 1 || len(c.Problems[key]) != 0 {
		t.Fatalf("a good update gave %v and problems %v; want one route and none", c.Upserted, c.Problems)
	}

	bad := strings.Replace(routeDoc(9, 0, "a"), "/r9", "r9", 1)
	c = load(t, tr, bad)
	if route := c.Upserted[0].Message.(*waypointv1.Route); route.Rejected == "" || len(route.Rules) != 0 || len(route.Parents) != 1 {
		t.Fatalf("a new bad route became %v; want a rejected one on its parent", route)
	}
	tr.Delete(Key{kindHTTPRoute, "default", "r9"})
	if c = tr.Update(); len(c.Removed) != 1 || len(tr.AllProblems()) != 0 {
		t.Errorf("its deletion removed %v and left %v", c.Removed, tr.AllProblems())
	}
}

// TestDeletedServiceHeals follows a route whose backend goes and comes back.
func TestDeletedServiceHeals(t *testing.T) {
	tr := mesh(t, 2)
	load(t, tr, strings.Replace(routeDoc(0, 0, "a"), "backendRefs: [{name: s0", "backendRefs: [{name: s1", 1))
	key := Key{kindHTTPRoute, "default", "r0"}
	tr.Delete(Key{kindService, "default", "s1"})
	c := tr.Update()
	if got := c.Problems[key]; len(got) != 1 || !strings.Contains(got[0].Fault, "Service default/s1 does not exist") {
		t.Fatalf("problems after the deletion: %v", got)
	}
	c = load(t, tr, serviceDoc(1))
	if got, ok := c.Problems[key]; !ok || len(got) != 0 {
		t.Errorf("problems after its return: %v, told %v", got, ok)
	}
}

// state is what a receiver of all changes has.
type state map[api.Key]proto.Message

func (s state) apply(c Changes) {
	for _, r := range c.Upserted {
		s[r.Key] = r.Message
	}
	for _, key := range c.Removed {
		delete(s, key)
	}
}

// TestAnyOrder loads the golden inputs in random orders, with random updates and deletions between, and compares what the
// changes add up to with what a fresh translator makes of the same objects.
func TestAnyOrder(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		input, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects := decodeAll(t, string(input))
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			tr, got, present := New(testOptions), state{}, map[int]bool{}
			for range 4 * len(objects) {
				i := r.IntN(len(objects))
				if present[i] && r.IntN(3) == 0 {
					tr.Delete(KeyOf(objects[i]))
					delete(present, i)
				} else {
					tr.Set(objects[i])
					present[i] = true
				}
				if r.IntN(4) == 0 {
					got.apply(tr.Update())
				}
			}
			got.apply(tr.Update())
			compareWithFresh(t, fmt.Sprintf("%s, seed %d", file, seed), tr, got, objects, present)
		}
	}
}

func decodeAll(t *testing.T, docs string) []Object {
	var objects []Object
	for _, doc := range strings.Split(docs, "\n---\n") {
		obj, err := Decode([]byte(doc))
		var rejected *Rejected
		if errors.As(err, &rejected) {
			continue // whether an older version stays depends on the order
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	return objects
}

func compareWithFresh(t *testing.T, name string, tr *Translator, got state, objects []Object, present map[int]bool) {
	t.Helper()
	fresh, want := New(tr.options), state{}
	for i := range present {
		fresh.Set(objects[i])
	}
	want.apply(fresh.Update())
	for key := range want {
		if !proto.Equal(got[key], want[key]) {
			t.Fatalf("%s: %s is %v, a fresh translator says %v", name, key, got[key], want[key])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: left over: %v", name, slices.Collect(maps.Keys(got)))
	}
	if !slices.Equal(tr.AllProblems(), fresh.AllProblems()) {
		t.Fatalf("%s: problems %v, a fresh translator says %v", name, tr.AllProblems(), fresh.AllProblems())
	}
	if len(tr.units) != len(fresh.units) || looks(tr) != looks(fresh) {
		t.Fatalf("%s: something is not forgotten: %d units, %d looks; fresh %d, %d", name, len(tr.units), looks(tr), len(fresh.units), looks(fresh))
	}
	for f, n := range tr.nodes {
		if fresh.nodes[f] == nil && len(tr.translators) == 1 || len(n.filed) == 0 && n.watchers.empty() {
			t.Fatalf("%s: %+v is not forgotten", name, f)
		}
	}
}

// looks counts those that a translator's mesh remembers of it.
func looks(tr *Translator) (n int) {
	for _, node := range tr.nodes {
		node.watchers.each(func(u *unitState) {
			if u.of == tr {
				n++
			}
		})
	}
	return n
}

// TestNothingIsKept: after every object is deleted a translator is as small as a new one.
func TestNothingIsKept(t *testing.T) {
	tr := mesh(t, 20)
	for _, key := range slices.Collect(maps.Keys(tr.objects)) {
		tr.Delete(key)
	}
	tr.Update()
	if len(tr.units) != 2 || len(tr.nodes) != 1 || looks(tr) != 2 || len(tr.problems)+len(tr.faults) != 0 {
		t.Errorf("%d units, %d facts, %d looks, %d problems left", len(tr.units), len(tr.nodes), looks(tr), len(tr.problems)+len(tr.faults))
	}
}

// BenchmarkEditRoute is one edit in a mesh of 500 services with 5,000 routes.
func BenchmarkEditRoute(b *testing.B) {
	tr := New(testOptions)
	docs := []string{meshBase}
	for i := range 500 {
		docs = append(docs, serviceDoc(i))
	}
	for i := range 5000 {
		docs = append(docs, routeDoc(i, i%500, "a"))
	}
	load(b, tr, strings.Join(docs, "\n---\n"))
	var versions []Object
	for _, header := range []string{"b", "c"} {
		obj, err := Decode([]byte(routeDoc(1234, 1234%500, header)))
		if err != nil {
			b.Fatal(err)
		}
		versions = append(versions, obj)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tr.Set(versions[i%2])
		if c := tr.Update(); len(c.Upserted) != 1 || c.Recomputed != 1 {
			b.Fatalf("one edit gave %d resources and %d computations", len(c.Upserted), c.Recomputed)
		}
	}
}

// BenchmarkEndpointChurn is one endpoint of a service with 1,000 pods that becomes ready or not: its slice of 100 and its pod.
func BenchmarkEndpointChurn(b *testing.B) {
	slice := func(i int, ready bool) string {
		doc := fmt.Sprintf(`apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s0-%d, namespace: default, labels: {kubernetes.io/service-name: s0}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:`, i)
		for j := range 100 {
			doc += fmt.Sprintf("\n- {addresses: [10.1.%d.%d], conditions: {ready: %v}, targetRef: {kind: Pod, name: p%d}}", i, j+1,
				ready || j > 0, 100*i+j)
		}
		return doc
	}
	tr := New(testOptions)
	docs := []string{meshBase, serviceDoc(0)}
	for i := range 1000 {
		docs = append(docs, strings.Replace(podDoc(i, "True"), fmt.Sprintf("app: s%d", i), "app: s0", 1))
	}
	for i := range 10 {
		docs = append(docs, slice(i, true))
	}
	load(b, tr, strings.Join(docs, "\n---\n"))
	var versions []Object
	for _, ready := range []bool{false, true} {
		obj, err := Decode([]byte(slice(3, ready)))
		if err != nil {
			b.Fatal(err)
		}
		versions = append(versions, obj)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tr.Set(versions[i%2])
		if c := tr.Update(); len(c.Upserted) != 1 {
			b.Fatalf("one endpoint gave %d resources", len(c.Upserted))
		}
	}
}

// BenchmarkLoad is the start with 500 services, pods and 5,000 routes, already decoded.
func BenchmarkLoad(b *testing.B) {
	var objects []Object
	docs := strings.Split(meshBase, "\n---\n")
	for i := range 500 {
		docs = append(docs, serviceDoc(i), podDoc(i, "True"))
	}
	for i := range 5000 {
		docs = append(docs, routeDoc(i, i%500, "a"))
	}
	for _, doc := range docs {
		obj, err := Decode([]byte(doc))
		if err != nil {
			b.Fatal(err)
		}
		objects = append(objects, obj)
	}
	b.ReportAllocs()
	for b.Loop() {
		tr := New(testOptions)
		for _, obj := range objects {
			tr.Set(obj)
		}
		tr.Update()
	}
}

func BenchmarkDecodeYAML(b *testing.B) {
	doc := []byte(routeDoc(1, 1, "a"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(doc); err != nil {
			b.Fatal(err)
		}
	}
}
