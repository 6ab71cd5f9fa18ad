package authz

import (
	"fmt"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// manyPolicies are n ALLOW and DENY policies of the usual forms, of which the
// last allows the request.
func manyPolicies(n int) []Policy {
	var out []Policy
	for i := range n - 1 {
		account := fmt.Sprintf("mesh.example/ns/ns-%d/sa/app", i)
		p := policyOf(Allow, Rule{From: []Source{{Principals: []string{account}}}, To: []Operation{{Methods: []string{"GET"}, Paths: []string{"/api/*"}}}})
		if i%2 == 1 {
			p = policyOf(Deny, to(Operation{Paths: []string{fmt.Sprintf("/admin/%d", i)}}))
		}
		out = append(out, named(fmt.Sprint("p", i), p))
	}
	return append(out, named("last", policyOf(Allow, Rule{
		From: []Source{{Principals: []string{"cluster.local/ns/default/sa/client"}}},
		To:   []Operation{{Methods: []string{"GET"}, Paths: []string{"/api/*"}}},
	})))
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			e, err := Compile(manyPolicies(n), Options{HTTP: true, Trust: trust})
			if err != nil {
				b.Fatal(err)
			}
			r := request()
			b.ReportAllocs()
			for b.Loop() {
				if !e.Check(r).Allowed {
					b.Fatal("denied")
				}
			}
		})
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	policies := append(manyPolicies(100),
		named("headers", policyOf(Deny, when(Condition{Key: "request.headers[x-role]", Values: []string{"admin", "root*"}}))),
		named("joined", policyOf(Allow, when(Condition{Key: "request.headers[x-role]", Values: []string{"a,b,c"}}))),
		named("hosts", policyOf(Deny, to(Operation{Hosts: []string{"Other.example", "*.evil"}}))),
		named("blocks", policyOf(Deny, from(Source{NotIPBlocks: []string{"10.0.0.0/8"}, Principals: []string{"*/sa/x"}}))))
	e := compileOne(t, true, policies...)
	r := request()
	r.Headers = append(r.Headers, Field{"x-role", "b"})
	for name, peer := range map[string]identity.ID{"known": client, "unknown": {TrustDomain: "x", Namespace: "y", ServiceAccount: "z"}} {
		r.Peer = peer
		if n := testing.AllocsPerRun(100, func() { e.Check(r) }); n != 0 {
			t.Errorf("%s peer: %v allocations", name, n)
		}
	}
}
