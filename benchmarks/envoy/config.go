// Package envoy installs real Envoy and writes the configuration with which it
// does a waypoint's work, as istiod would configure it.
package envoy

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/template"
)

//go:embed envoy.yaml.tmpl
var source string

var tmpl = template.Must(template.New("envoy.yaml").Parse(source))

// Config says what Envoy is to serve: HTTP on 10.0.0.1:8080, and gRPC on
// 10.0.0.5:8080, with a policy, a header route and a split over two subsets; TCP on
// 10.0.0.4:9000. Inner connections keep their version of HTTP.
type Config struct {
	Certs     string // folder with ca.pem, cert.pem and key.pem
	Bind      string // address to listen on
	Port      int    // for HBONE
	Admin     int    // port
	Pod       string // address of the destination's node proxy
	Client    string // identity that is allowed
	Policies  int    // policies that do not match, beside the one that does
	Routes    int    // routes before the one that matches
	Services  int    // further services, from 10.1.0.1 on
	AccessLog string // a file; none: it is written and dropped
}

// Write writes the configuration as YAML.
func (c Config) Write(w io.Writer) error {
	if c.AccessLog == "" {
		c.AccessLog = os.DevNull
	}
	return tmpl.Execute(w, c.data())
}

type chain struct {
	Name     string
	Routes   []route
	Policies []policy
}

type route struct {
	Name, Match, Decorator, Cluster, SetHeader string
	Split                                      []share
	NoTimeout                                  bool
}

type share struct {
	Name   string
	Weight int
}

type policy struct{ Name, Prefix, Principal string }

type service struct{ VIP, Cluster string }

type cluster struct{ Name, Endpoint string }

type data struct {
	Config
	StatPrefixes, StatSuffixes []string
	LogFormat, StatTags        string
	Chains                     []chain
	Services                   []service
	Clusters                   []cluster
}

const (
	mainChain = "inbound-vip|8080|http|reviews"
	v1        = mainChain + "-v1"
	v2        = mainChain + "-v2"
)

func (c Config) data() data {
	endpoint := func(port int) string { return fmt.Sprintf("%s:%d", c.Pod, port) }
	d := data{
		Config:       c,
		StatPrefixes: []string{"reporter=", "cluster_manager", "listener_manager", "server", "istio", "workload_discovery"},
		StatSuffixes: []string{"rbac.allowed", "rbac.denied", "shadow_allowed", "shadow_denied", "downstream_cx_active"},
		LogFormat:    strconv.Quote(logFormat),
		StatTags:     statTags(),
		Chains:       []chain{{Name: mainChain, Routes: c.routes(), Policies: c.policies()}},
		Clusters: []cluster{
			{v1, endpoint(8080)}, {v2, endpoint(8081)}, {"inbound-vip|9000|tcp|echo", endpoint(9000)},
		},
	}
	for i := range c.Services {
		name := fmt.Sprintf("inbound-vip|8080|http|svc%d", i)
		d.Services = append(d.Services, service{fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250), name})
		d.Clusters = append(d.Clusters, cluster{name, endpoint(8080)})
		d.Chains = append(d.Chains, chain{Name: name, Policies: c.policies(), Routes: []route{{
			Name: "default", Match: `{prefix: /}`, Cluster: name,
		}}})
	}
	return d
}

func (c Config) routes() []route {
	var rs []route
	for i := range c.Routes {
		rs = append(rs, route{
			Name:    fmt.Sprintf("demo.reviews.x%d", i),
			Match:   fmt.Sprintf(`{path_separated_prefix: /svc%d/items, headers: [{name: x-tenant, string_match: {exact: t%d}}]}`, i, i),
			Cluster: v1,
		})
	}
	return append(rs,
		route{Name: "demo.reviews.canary", Match: `{prefix: /, headers: [{name: x-canary, string_match: {exact: "1"}}]}`, Cluster: v2},
		route{Name: "demo.reviews.size", Match: `{path_separated_prefix: /size}`, Cluster: v1, NoTimeout: true},
		route{Name: "demo.reviews.admin", Match: `{path_separated_prefix: /admin}`, Cluster: v1, SetHeader: "x-wp"},
		route{
			Name: "demo.reviews.split", Match: `{prefix: /}`, Decorator: "reviews.demo.svc.cluster.local:8080/*",
			Split: []share{{v1, 90}, {v2, 10}},
		})
}

func (c Config) policies() []policy {
	var ps []policy
	for i := range c.Policies {
		ps = append(ps, policy{
			Name:      fmt.Sprintf("ns[demo]-policy[p%d]-rule[0]", i),
			Prefix:    fmt.Sprintf("/team%d/", i),
			Principal: fmt.Sprintf("spiffe://cluster.local/ns/team%d/sa/app", i),
		})
	}
	return append(ps, policy{"ns[demo]-policy[l7]-rule[0]", "/", c.Client})
}

// logFormat is Istio's default text format.
const logFormat = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
	`%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% ` +
	`%BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" ` +
	`"%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% ` +
	"%DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n"

// statTags returns the labels of istio_requests_total as a YAML flow sequence.
func statTags() string {
	tags := [][2]string{
		{"reporter", "waypoint"},
		{"source_principal", "%FILTER_STATE(io.istio.peer_principal:PLAIN)%"},
		{"destination_principal", "%FILTER_STATE(io.istio.local_principal:PLAIN)%"},
		{"request_protocol", "http"},
		{"response_code", "%RESPONSE_CODE%"},
		{"response_flags", "%RESPONSE_FLAGS%"},
		{"destination_service", "%UPSTREAM_CLUSTER_RAW%"},
		{"destination_service_namespace", "demo"},
		{"connection_security_policy", "mutual_tls"},
		{"source_workload", "unknown"},
		{"source_app", "unknown"},
		{"source_version", "unknown"},
		{"source_cluster", "Kubernetes"},
		{"destination_workload", "reviews"},
		{"destination_app", "reviews"},
		{"destination_version", "v1"},
		{"destination_cluster", "Kubernetes"},
		{"source_canonical_service", "unknown"},
		{"destination_canonical_service", "reviews"},
		{"source_workload_namespace", "default"},
		{"destination_workload_namespace", "demo"},
	}
	var b strings.Builder
	b.WriteByte('[')
	for _, t := range tags {
		fmt.Fprintf(&b, "{name: %s, value_format: %q}, ", t[0], t[1])
	}
	b.WriteByte(']')
	return b.String()
}
