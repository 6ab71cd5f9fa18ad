// Package waypoint writes the manifests with which our waypoint does in the
// benchmark what package envoy has Envoy do.
package waypoint

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

//go:embed mesh.yaml.tmpl
var source string

var tmpl = template.Must(template.New("mesh.yaml").Parse(source))

// Manifests say what the waypoint is to serve, in the same numbers as
// envoy.Config does.
type Manifests struct {
	Pod      string
	Client   identity.ID
	Policies int
	Routes   int
	Services int
}

type service struct {
	Name, VIP, Protocol string
	Port, TargetPort    int
}

type route struct {
	Name  string
	Rules []int
}

type data struct {
	Pod, Principal string
	Services       []service
	Routed         []string // services with a header route and a split
	Routes         []route
	Policies       []int
}

// maxRules is how many rules the Gateway API allows an HTTPRoute.
const maxRules = 16

func (m Manifests) data() data {
	d := data{
		Pod: m.Pod, Principal: strings.TrimPrefix(m.Client.String(), "spiffe://"),
		Services: []service{
			{"reviews", "10.0.0.1", "http", 8080, 8080},
			{"reviews-v1", "10.0.0.2", "http", 8080, 8080},
			{"reviews-v2", "10.0.0.3", "http", 8080, 8081},
			{"echo", "10.0.0.4", "tcp", 9000, 9000},
			{"grpc", "10.0.0.5", "kubernetes.io/h2c", 8080, 8080},
			{"grpc-v1", "10.0.0.6", "kubernetes.io/h2c", 8080, 8080},
			{"grpc-v2", "10.0.0.7", "kubernetes.io/h2c", 8080, 8081},
		},
		Routed:   []string{"reviews", "grpc"},
		Policies: numbers(0, m.Policies),
	}
	for i := range m.Services {
		d.Services = append(d.Services, service{fmt.Sprintf("svc%d", i), fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250), "http", 8080, 8080})
	}
	for i := 0; i < m.Routes; i += maxRules {
		d.Routes = append(d.Routes, route{fmt.Sprintf("more-%d", i/maxRules), numbers(i, min(i+maxRules, m.Routes))})
	}
	return d
}

func numbers(from, to int) []int {
	var ns []int
	for i := from; i < to; i++ {
		ns = append(ns, i)
	}
	return ns
}

// WriteDir writes the manifests into dir.
func (m Manifests) WriteDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var out strings.Builder
	if err := tmpl.Execute(&out, m.data()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "mesh.yaml"), []byte(out.String()), 0o644)
}

const live = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: version, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: reviews, port: 8080}]
  rules:
  - matches: [{path: {type: Exact, value: /version}}]
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-version, value: "%d"}]}}]
    backendRefs: [{name: reviews-v1, port: 8080}]
`

// Edit has requests for /version carry x-version: n, by one file that is
// replaced as editors and kubelets do it: written beside and renamed.
func Edit(dir string, n int) error {
	next := filepath.Join(dir, ".version.yaml.new")
	if err := os.WriteFile(next, fmt.Appendf(nil, live, n), 0o644); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(dir, "version.yaml"))
}
