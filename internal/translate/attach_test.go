package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/api/istio/workload"
)

// TestAttachment tells, for one Service in a namespace, whether the Gateway fronts it.
func TestAttachment(t *testing.T) {
	const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default, labels: {%s}}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: %d, protocol: HBONE, allowedRoutes: {namespaces: {%s}}}]}`
	tests := []struct {
		name                 string
		waypointFor          string
		port                 int
		allowed              string
		namespace            string
		namespaceLabels      string
		labels               string
		noOtherLabel         bool // nothing in the folder carries use-waypoint
		wantService, wantPod bool
	}{
		{name: "service label", labels: "istio.io/use-waypoint: waypoint", wantService: true},
		{name: "namespace label", namespaceLabels: "istio.io/use-waypoint: waypoint", wantService: true},
		{name: "object beats namespace", labels: "istio.io/use-waypoint: other", namespaceLabels: "istio.io/use-waypoint: waypoint"},
		{name: "opt out", labels: "istio.io/use-waypoint: none", namespaceLabels: "istio.io/use-waypoint: waypoint"},
		{name: "no label", labels: ""},
		{name: "canary", labels: "istio.io/use-waypoint: other, istio.io/use-waypoint-canary: waypoint", wantService: true},
		{name: "canary alone", labels: "istio.io/use-waypoint-canary: waypoint", noOtherLabel: true, wantService: true},
		{name: "canary for workloads", waypointFor: "workload", labels: "istio.io/use-waypoint-canary: waypoint"},
		{
			name: "canary of another namespace", namespace: "elsewhere", allowed: "from: All", wantService: true,
			labels: "istio.io/use-waypoint: other, istio.io/use-waypoint-canary: waypoint, istio.io/use-waypoint-canary-namespace: default",
		},
		{
			name: "canary of another namespace, not allowed", namespace: "elsewhere",
			labels: "istio.io/use-waypoint: other, istio.io/use-waypoint-canary: waypoint, istio.io/use-waypoint-canary-namespace: default",
		},
		{
			name: "canary of the namespace", wantService: true,
			namespaceLabels: "istio.io/use-waypoint: other, istio.io/use-waypoint-canary: waypoint",
		},
		{
			name: "canary of the namespace, but not its waypoint", labels: "istio.io/use-waypoint: third",
			namespaceLabels: "istio.io/use-waypoint: other, istio.io/use-waypoint-canary: waypoint",
		},
		{
			name: "own canary beside the namespace's waypoint", labels: "istio.io/use-waypoint-canary: third",
			namespaceLabels: "istio.io/use-waypoint: other, istio.io/use-waypoint-canary: waypoint",
		},
		{name: "no label anywhere", noOtherLabel: true, wantService: true},
		{name: "no label anywhere, other namespace", noOtherLabel: true, namespace: "elsewhere"},
		{
			name: "the gateway's own", labels: "gateway.networking.k8s.io/gateway-name: waypoint",
			namespaceLabels: "istio.io/use-waypoint: waypoint",
		},
		{name: "for all", waypointFor: "all", labels: "istio.io/use-waypoint: waypoint", wantService: true, wantPod: true},
		{name: "for workloads", waypointFor: "workload", labels: "istio.io/use-waypoint: waypoint", wantPod: true},
		{name: "for none", waypointFor: "none", labels: "istio.io/use-waypoint: waypoint"},
		{name: "for an unknown word", waypointFor: "sevrice", labels: "istio.io/use-waypoint: waypoint", wantService: true},
		{
			name: "other namespace not allowed", namespace: "elsewhere",
			labels: "istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: default",
		},
		{
			name: "other namespace, all allowed", namespace: "elsewhere", allowed: "from: All",
			labels: "istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: default", wantService: true,
		},
		{name: "other namespace, none allowed", allowed: "from: None", labels: "istio.io/use-waypoint: waypoint"},
		{name: "own name only", namespace: "elsewhere", allowed: "from: All", labels: "istio.io/use-waypoint: waypoint"},
		{
			name: "selected namespace", namespace: "elsewhere", allowed: "from: Selector, selector: {matchLabels: {team: a}}",
			namespaceLabels: "team: a, istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: default", wantService: true,
		},
		{
			name: "selected by name", namespace: "elsewhere",
			allowed: "from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: elsewhere}}",
			labels:  "istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: default", wantService: true,
		},
		{
			name: "unselected namespace", namespace: "elsewhere", allowed: "from: Selector, selector: {matchLabels: {team: a}}",
			namespaceLabels: "team: b, istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: default",
		},
		{
			name: "no HBONE listener allows its own namespace", port: 80, allowed: "from: All",
			labels: "istio.io/use-waypoint: waypoint", wantService: true,
		},
		{
			name: "no HBONE listener allows no other namespace", port: 80, allowed: "from: All", namespace: "elsewhere",
			labels: "istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: default",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.port == 0 {
				tt.port = hbonePort
			}
			if tt.namespace == "" {
				tt.namespace = "default"
			}
			forLabel := ""
			if tt.waypointFor != "" {
				forLabel = labelWaypointFor + ": " + tt.waypointFor
			}
			docs := []string{
				fmt.Sprintf(gateway, forLabel, tt.port, tt.allowed),
				fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s}}", tt.namespace, tt.namespaceLabels),
				fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: %s, labels: {%s}}\nspec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}",
					tt.namespace, tt.labels),
				fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: %s, labels: {%s}}\nstatus: {podIP: 10.1.0.1}",
					tt.namespace, tt.labels),
			}
			if !tt.noOtherLabel {
				docs = append(docs, "apiVersion: v1\nkind: Namespace\nmetadata: {name: unrelated, labels: {istio.io/use-waypoint: x}}")
			}
			changes := load(t, New(testOptions), strings.Join(docs, "\n---\n"))
			service, pod := fronted(t, changes.Upserted)
			if service != tt.wantService || pod != tt.wantPod {
				t.Errorf("service %v, pod %v; want %v, %v", service, pod, tt.wantService, tt.wantPod)
			}
		})
	}
}

// fronted tells whether the one service and the one workload among resources name the waypoint.
func fronted(t *testing.T, resources []api.Resource) (service, pod bool) {
	t.Helper()
	for _, r := range resources {
		a, ok := r.Message.(*workload.Address)
		if !ok {
			continue
		}
		service = service || a.GetService().GetWaypoint().GetHostname().GetHostname() == "waypoint.default.svc.cluster.local"
		pod = pod || a.GetWorkload().GetWaypoint().GetHostname().GetHostname() == "waypoint.default.svc.cluster.local"
	}
	return service, pod
}

// TestUnlabelledClusterAttachesNothing: only folders are read as if unlabelled meant all.
func TestUnlabelledClusterAttachesNothing(t *testing.T) {
	o := testOptions
	o.UnlabelledMeansAll = false
	changes := load(t, New(o), `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: default}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: default}
spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}`)
	if service, _ := fronted(t, changes.Upserted); service {
		t.Error("a service without a label is attached")
	}
}

func TestAppProtocol(t *testing.T) {
	word := func(s string) *string { return &s }
	tests := []struct {
		service, slice *string
		name           string
		port           uint32
		want           workload.AppProtocol
	}{
		{name: "http", want: workload.AppProtocol_HTTP11},
		{name: "http-admin", want: workload.AppProtocol_HTTP11},
		{name: "HTTP-", want: workload.AppProtocol_HTTP11},
		{name: "http2-x", want: workload.AppProtocol_HTTP2},
		{name: "grpc", want: workload.AppProtocol_GRPC},
		{name: "grpc-web-x", want: workload.AppProtocol_HTTP11},
		{name: "https", want: workload.AppProtocol_TLS},
		{name: "tls-x", want: workload.AppProtocol_TLS},
		{name: "mysql", want: workload.AppProtocol_TCP},
		{name: "web", want: workload.AppProtocol_UNKNOWN},
		{name: "admin-http", want: workload.AppProtocol_UNKNOWN},
		{name: "", want: workload.AppProtocol_UNKNOWN},
		{name: "", port: 3306, want: workload.AppProtocol_TCP},
		{name: "http", port: 3306, want: workload.AppProtocol_HTTP11},
		{service: word("kubernetes.io/h2c"), name: "tcp", want: workload.AppProtocol_HTTP2},
		{service: word("kubernetes.io/ws"), want: workload.AppProtocol_HTTP11},
		{service: word("kubernetes.io/wss"), want: workload.AppProtocol_TLS},
		{service: word("kubernetes.io/other"), name: "http", want: workload.AppProtocol_UNKNOWN},
		{service: word("example.com/http"), name: "http", want: workload.AppProtocol_UNKNOWN},
		{service: word("TCP"), slice: word("http"), name: "grpc", want: workload.AppProtocol_TCP},
		{slice: word("http"), name: "grpc", want: workload.AppProtocol_HTTP11},
		{slice: word("example.com/x"), name: "grpc", want: workload.AppProtocol_UNKNOWN},
		{service: word(""), name: "grpc", want: workload.AppProtocol_GRPC},
	}
	for _, tt := range tests {
		if got := appProtocol(tt.service, tt.slice, tt.name, tt.port); got != tt.want {
			t.Errorf("appProtocol(%q, %q, %q, %d) = %v, want %v", value(tt.service), value(tt.slice), tt.name, tt.port, got, tt.want)
		}
	}
}
