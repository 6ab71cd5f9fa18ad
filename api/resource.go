//go:generate go -C ../tools/protogen run .

// Package api gives the resources of a waypoint's configuration one form, whichever way they travel: a key (type and name)
// and a message. The messages themselves are in istio/workload and waypoint/v1.
package api

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
)

// Type URLs of the resources, as discovery writes them.
const (
	AddressType             = typePrefix + "istio.workload.Address"
	GatewayType             = typePrefix + "waypoint.v1.Gateway"
	RouteType               = typePrefix + "waypoint.v1.Route"
	AuthorizationPolicyType = typePrefix + "waypoint.v1.AuthorizationPolicy"

	typePrefix = "type.googleapis.com/"
)

// Types are all the type URLs, in the order in which a proxy should subscribe to them.
func Types() []string {
	return []string{GatewayType, AddressType, RouteType, AuthorizationPolicyType}
}

// Key names one resource of one type.
type Key struct {
	Type string // one of the type URLs
	Name string // "namespace/hostname", a workload's UID, "Kind/namespace/name", "namespace/name"
}

// String is the key for people: "waypoint.v1.Route HTTPRoute/default/reviews".
func (k Key) String() string {
	if len(k.Type) > len(typePrefix) {
		return k.Type[len(typePrefix):] + " " + k.Name
	}
	return k.Type + " " + k.Name
}

// Resource is one message with its key. The message is never changed after it was handed out.
type Resource struct {
	Key
	Message proto.Message
}

// Of wraps one of the four messages. A bare Service or Workload becomes an Address. It panics on any other message: that is
// a fault of the program, not of its input.
func Of(m proto.Message) Resource {
	switch m := m.(type) {
	case *workload.Service:
		return Of(&workload.Address{Type: &workload.Address_Service{Service: m}})
	case *workload.Workload:
		return Of(&workload.Address{Type: &workload.Address_Workload{Workload: m}})
	case *workload.Address:
		return Resource{Key{AddressType, m.ResourceName()}, m}
	case *waypointv1.Gateway:
		return Resource{Key{GatewayType, m.ResourceName()}, m}
	case *waypointv1.Route:
		return Resource{Key{RouteType, m.ResourceName()}, m}
	case *waypointv1.AuthorizationPolicy:
		return Resource{Key{AuthorizationPolicyType, m.ResourceName()}, m}
	}
	panic(fmt.Sprintf("api: %T is not a resource", m))
}

// New makes an empty message for a type URL; nil for an unknown one.
func New(typeURL string) proto.Message {
	switch typeURL {
	case AddressType:
		return &workload.Address{}
	case GatewayType:
		return &waypointv1.Gateway{}
	case RouteType:
		return &waypointv1.Route{}
	case AuthorizationPolicyType:
		return &waypointv1.AuthorizationPolicy{}
	}
	return nil
}

// Compare orders keys by type, then name.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Type, other.Type), cmp.Compare(k.Name, other.Name))
}
