package translate

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// manyWaypoints is a mesh in which services choose among several gateways.
const manyWaypoints = meshBase + `
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: other, namespace: default}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Service
metadata: {name: s9, namespace: default, labels: {istio.io/use-waypoint: other}}
spec: {clusterIP: 10.0.9.9, selector: {app: s0}, ports: [{name: http, port: 80}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: default}
spec: {targetRefs: [{group: "", kind: Service, name: s9}, {group: "", kind: Service, name: s0}], rules: [{}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: bad, namespace: default}
spec: {parentRefs: [{group: "", kind: Service, name: s0}], rules: [{matches: [{path: {value: none}}]}]}`

// TestTranslatorsShareAMesh: what translators of several gateways say of one mesh is what each says of a mesh of its own,
// whatever happens in which order, and whoever comes and goes.
func TestTranslatorsShareAMesh(t *testing.T) {
	docs := []string{manyWaypoints, serviceDoc(0), serviceDoc(1), podDoc(0, "True"), routeDoc(0, 0, "a"), routeDoc(1, 1, "a"), routeDoc(2, 9, "a")}
	objects := decodeAll(t, strings.Join(docs, "\n---\n"))
	names := []string{"waypoint", "other", "missing"}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		m, present := NewMesh(testOptions), map[int]bool{}
		translators, got := map[string]*Translator{}, map[string]state{}
		for range 6 * len(objects) {
			name, i := names[r.IntN(len(names))], r.IntN(len(objects))
			tr := translators[name]
			switch r.IntN(8) {
			case 0:
				m.Delete(KeyOf(objects[i]))
				delete(present, i)
			case 1, 2:
				if tr == nil {
					translators[name], got[name] = m.Translator("default", name), state{}
				} else {
					got[name].apply(tr.Update())
				}
			case 3:
				if tr != nil {
					tr.Close()
					delete(translators, name)
				}
			default:
				m.Set(objects[i])
				present[i] = true
			}
		}
		for name, tr := range translators {
			got[name].apply(tr.Update())
			compareWithFresh(t, fmt.Sprintf("seed %d, %s", seed, name), tr, got[name], objects, present)
			tr.Close()
			if n := looks(tr); n > 0 {
				t.Fatalf("seed %d: %d looks of a translator that was closed are remembered", seed, n)
			}
		}
	}
}

// TestAnotherGatewayIsCheap: with 20 gateways memory is not 20 times that of one.
func TestAnotherGatewayIsCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("loads a large mesh")
	}
	const services, gateways, most = 200, 10, 700 // bytes for each unit
	m := mesh(t, services).Mesh
	before := heap()
	for i := range gateways {
		m.Translator("default", fmt.Sprintf("w%d", i)).Update()
	}
	units := gateways * 4 * services
	if each := (heap() - before) / units; each > most {
		t.Errorf("%d bytes for each of a gateway's units, want %d at most", each, most)
	} else {
		t.Logf("%d bytes for each of a gateway's units", each)
	}
	runtime.KeepAlive(m)
}

func heap() int {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// TestEachGatewayRecomputesWhatIsTouched: a change is computed once for each gateway, and changes something only for the
// one that fronts it.
func TestEachGatewayRecomputesWhatIsTouched(t *testing.T) {
	ours := mesh(t, 50)
	theirs := ours.Translator("default", "other")
	theirs.Update()
	for _, tt := range []struct {
		name, change           string
		recomputed, ours, less int
	}{
		{"a route", routeDoc(7, 3, "b"), 1, 1, 0},
		{"a service, its pod and routes", strings.Replace(serviceDoc(3), "port: 80", "port: 80, appProtocol: grpc", 1), 4, 1, 1},
	} {
		c := load(t, ours, tt.change)
		if c.Recomputed != tt.recomputed || len(c.Upserted) != tt.ours {
			t.Errorf("%s: recomputed %d and %d are others, want %d and %d", tt.name, c.Recomputed, len(c.Upserted), tt.recomputed, tt.ours)
		}
		if c = theirs.Update(); c.Recomputed != tt.recomputed || len(c.Upserted) != tt.less {
			t.Errorf("%s, for the other gateway: recomputed %d and %d are others, want %d and %d", tt.name, c.Recomputed, len(c.Upserted),
				tt.recomputed, tt.less)
		}
	}
}
