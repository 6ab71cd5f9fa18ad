package workload

import (
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// wire is what Istio's control plane and ztunnel have on the wire: a change here breaks talking to them.
var wire = map[string]string{
	"Address": "workload=1 service=2",
	"Service": "name=1 namespace=2 hostname=3 addresses=4 ports=5 subject_alt_names=6 waypoint=7 load_balancing=8 ip_families=9 " +
		"extensions=10 canonical=11 ingress_use_waypoint=12 weighted_waypoints=13 visibility=14",
	"LoadBalancing": "routing_preference=1 mode=2 health_policy=3",
	"Workload": "uid=20 name=1 namespace=2 addresses=3 hostname=21 network=4 tunnel_protocol=5 trust_domain=6 service_account=7 " +
		"waypoint=8 network_gateway=19 node=9 canonical_name=10 canonical_revision=11 workload_type=12 workload_name=13 " +
		"native_tunnel=14 application_tunnel=23 services=22 authorization_policies=16 status=17 cluster_id=18 locality=24 " +
		"network_mode=25 extensions=26 capacity=27",
	"Locality":           "region=1 zone=2 subzone=3",
	"PortList":           "ports=1",
	"Port":               "service_port=1 target_port=2 app_protocol=3",
	"ApplicationTunnel":  "protocol=1 port=2",
	"GatewayAddress":     "hostname=1 address=2 hbone_mtls_port=3",
	"WeightedWaypoint":   "destination=1 weight=2",
	"NetworkAddress":     "network=1 address=2 length=3",
	"NamespacedHostname": "namespace=1 hostname=2",
	"Extension":          "name=1 config=2",
}

func TestWireFormat(t *testing.T) {
	if name := File_istio_workload_workload_proto.Package(); name != "istio.workload" {
		t.Errorf("package %s", name)
	}
	messages := File_istio_workload_workload_proto.Messages()
	if messages.Len() != len(wire) {
		t.Errorf("%d messages, want %d", messages.Len(), len(wire))
	}
	for i := range messages.Len() {
		m := messages.Get(i)
		if got := fieldsOf(m); got != wire[string(m.Name())] {
			t.Errorf("%s has\n%s, want\n%s", m.Name(), got, wire[string(m.Name())])
		}
	}
}

func fieldsOf(m protoreflect.MessageDescriptor) string {
	fields := make([]string, 0, m.Fields().Len())
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		fields = append(fields, string(f.Name())+"="+strconv.Itoa(int(f.Number())))
	}
	return strings.Join(fields, " ")
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name, namespace, hostname string
		ok                        bool
	}{
		{"default/a.default.svc.cluster.local", "default", "a.default.svc.cluster.local", true},
		{"Kubernetes//Pod/default/a", "Kubernetes", "/Pod/default/a", false},
		{"/a", "", "a", false},
		{"a/", "a", "", false},
		{"a", "a", "", false},
	} {
		namespace, hostname, ok := ParseServiceName(tt.name)
		if namespace != tt.namespace || hostname != tt.hostname || ok != tt.ok {
			t.Errorf("ParseServiceName(%q) = %q, %q, %v", tt.name, namespace, hostname, ok)
		}
		if ok && ServiceName(namespace, hostname) != tt.name {
			t.Errorf("ServiceName does not give %q back", tt.name)
		}
	}
	if got := (&Address{}).ResourceName(); got != "" {
		t.Errorf("an empty address is called %q", got)
	}
}
