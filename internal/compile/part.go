package compile

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// Part compiles a resource. The error says what is wrong with it, naming the
// field; the part is then one that fails closed, for sources that have no good
// version of the resource to keep. It panics on a message that is no resource,
// which api.Of and api.New rule out.
func Part(r api.Resource) (mesh.Part, error) {
	part, err := compile(r.Message)
	if err != nil {
		err = fmt.Errorf("%s: %w", r.Key, err)
	}
	return part, err
}

func compile(m proto.Message) (mesh.Part, error) {
	switch m := m.(type) {
	case *workload.Address:
		if s := m.GetService(); s != nil {
			return service(s)
		}
		return workloadOf(m.GetWorkload())
	case *waypointv1.Gateway:
		return gateway(m)
	case *waypointv1.Route:
		return routeOf(m)
	case *waypointv1.AuthorizationPolicy:
		return policy(m)
	}
	panic(fmt.Sprintf("compile: %T is not a resource", m))
}

// Keys are those of the parts that a resource of this key may have been compiled
// to: an address is a service or a workload.
func Keys(k api.Key) []mesh.Key {
	switch k.Type {
	case api.AddressType:
		return []mesh.Key{{Kind: mesh.ServiceKind, Name: k.Name}, {Kind: mesh.WorkloadKind, Name: k.Name}}
	case api.GatewayType:
		return []mesh.Key{{Kind: mesh.GatewayKind}}
	case api.RouteType:
		return []mesh.Key{{Kind: mesh.RouteKind, Name: k.Name}}
	case api.AuthorizationPolicyType:
		return []mesh.Key{{Kind: mesh.PolicyKind, Name: k.Name}}
	}
	return nil
}
