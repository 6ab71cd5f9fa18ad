package route

import (
	"fmt"
	"testing"
)

// Tables of n rules in the shapes that tables have; each matches benchRequest
// with its last rule.
var shapes = []struct {
	name string
	make func(n int) []Rule
}{
	{"prefixes", func(n int) []Rule {
		var all []Match
		for i := range n - 1 {
			all = append(all, prefix(fmt.Sprintf("/api/v1/team-%d/service-%d", i%70, i)))
		}
		return rules(append(all, prefix("/api/v1/items"))...)
	}},
	{"headers", func(n int) []Rule {
		var all []Match
		for i := range n - 1 {
			all = append(all, prefix("/api").header("x-tenant", fmt.Sprint("tenant-", i)))
		}
		return rules(append(all, prefix("/api").header("x-tenant", "acme"))...)
	}},
	{"queries", func(n int) []Rule {
		var all []Match
		for i := range n - 1 {
			all = append(all, prefix("/api").query("item", fmt.Sprint(i)))
		}
		return rules(append(all, prefix("/api").query("item", "none"))...)
	}},
	{"names", func(n int) []Rule {
		var all []Match
		for i := range n - 1 {
			all = append(all, prefix("/").header(fmt.Sprint("x-", i), "1"))
		}
		return rules(append(all, prefix("/"))...)
	}},
	{"grpc", func(n int) []Rule {
		var all []Match
		for i := range n - 1 {
			all = append(all, grpc(fmt.Sprint("svc.S", i), "Get"))
		}
		return rules(append(all, grpc("api", ""))...)
	}},
}

func benchRequest() *Request {
	return &Request{
		Method: "GET", Path: "/api/v1/items/42", Query: "page=2&item=none", Host: "shop.default:8080",
		Headers: []Field{
			{"user-agent", "curl/8"},
			{"accept", "*/*"},
			{"accept-encoding", "gzip"},
			{"x-request-id", "4e2c"},
			{"traceparent", "00-1-1-01"},
			{"authorization", "Bearer x"},
			{"content-type", "application/json"},
			{"x-tenant", "acme"},
			{"cookie", "a=1"},
			{"x-b3-flags", "1"},
		},
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range []int{1, 100, 5000} {
			b.Run(fmt.Sprintf("shape=%s/routes=%d", shape.name, n), func(b *testing.B) {
				table := newTable(b, shape.make(n))
				r := benchRequest()
				b.ReportAllocs()
				for b.Loop() {
					if _, _, ok := table.Match(r); !ok {
						b.Fatal("no match")
					}
				}
			})
		}
	}
}

func BenchmarkNormalizePath(b *testing.B) {
	for _, path := range []string{"/api/v1/items/42", "/api/v1/items/a%20b"} {
		b.Run(fmt.Sprintf("path=%s", path[1:]), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NormalizePath(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	two := benchRequest()
	two.Headers = append(two.Headers, Field{"x-tenant", "b"})
	two.Query = "it%65m=no+ne&item=1"
	for _, shape := range shapes {
		all := shape.make(100)
		all[0].Hosts = []string{"*.default", "other"}
		table := newTable(t, all)
		for _, r := range []*Request{benchRequest(), two} {
			if n := testing.AllocsPerRun(100, func() { table.Match(r) }); n != 0 {
				t.Errorf("%s: %v allocations", shape.name, n)
			}
		}
	}
	rule := Rule{Backends: []Backend{{Weight: 1}, {Weight: 2}}}
	sni, err := NewSNITable([]Rule{{Hosts: []string{"*.example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		rule.Pick(7)
		sni.Match("a.example.com")
		_, _, _ = NormalizeTarget("GET", "/api/v1/items;x=1?a=b")
		_, _ = NormalizePath("/a%20b/%C3%A9")
		NormalizeHost("shop.default:8080")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkNewTable is what one edit of a route costs its service.
func BenchmarkNewTable(b *testing.B) {
	for _, shape := range shapes {
		b.Run(fmt.Sprintf("shape=%s/routes=5000", shape.name), func(b *testing.B) {
			all := shape.make(5000)
			b.ReportAllocs()
			for b.Loop() {
				newTable(b, all)
			}
		})
	}
}
