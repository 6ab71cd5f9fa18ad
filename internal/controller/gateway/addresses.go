package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// locate finds the addresses of a Gateway, none as long as nobody is ready there.
// The host name comes first: istiod takes it for the waypoint's address, and so
// sends clients to a ready pod with its own identity. fault says what is wrong
// with spec.addresses.
func (r *Reconciler) locate(ctx context.Context, g *gatewayv1.Gateway) (addresses []gatewayv1.GatewayStatusAddress, fault string, err error) {
	names := []string{g.Name}
	if !Managed(g) {
		if names, fault = r.servicesNamed(g); fault != "" {
			return nil, fault, nil
		}
	}
	for _, name := range names {
		var s corev1.Service
		switch err := r.client.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: name}, &s); {
		case client.IgnoreNotFound(err) != nil:
			return nil, "", fmt.Errorf("addresses of the Gateway: %w", err)
		case err != nil:
			continue // its event brings us back
		}
		ready, err := r.hasReadyPod(ctx, &s)
		if err != nil || !ready {
			return nil, "", err
		}
		addresses = append(addresses, address(gatewayv1.HostnameAddressType, r.hostname(g, name)))
		for _, ip := range s.Spec.ClusterIPs {
			if ip != corev1.ClusterIPNone {
				addresses = append(addresses, address(gatewayv1.IPAddressType, ip))
			}
		}
	}
	return addresses[:min(len(addresses), maxAddresses)], "", nil
}

// maxAddresses is the API's limit in a status; one more, and all of it is refused.
const maxAddresses = 16

func address(kind gatewayv1.AddressType, value string) gatewayv1.GatewayStatusAddress {
	return gatewayv1.GatewayStatusAddress{Type: &kind, Value: value}
}

func (r *Reconciler) hostname(g *gatewayv1.Gateway, service string) string {
	return service + "." + g.Namespace + ".svc." + r.settings.ClusterDomain
}

// servicesNamed reads spec.addresses of a Gateway that the user deploys. Clients
// look for the Services in the Gateway's own namespace, so no other will do.
func (r *Reconciler) servicesNamed(g *gatewayv1.Gateway) (names []string, fault string) {
	for i, a := range g.Spec.Addresses {
		name, rest, _ := strings.Cut(a.Value, ".")
		short := []string{"", g.Namespace, g.Namespace + ".svc", g.Namespace + ".svc." + r.settings.ClusterDomain}
		if a.Type == nil || *a.Type != gatewayv1.HostnameAddressType || !slices.Contains(short, rest) {
			return nil, fmt.Sprintf("spec.addresses[%d]: must be the Hostname of a Service of namespace %s, such as %s, got %q",
				i, g.Namespace, r.hostname(g, g.Name), a.Value)
		}
		names = append(names, name)
	}
	return names, ""
}

// hasReadyPod goes by the EndpointSlices, as istiod does.
func (r *Reconciler) hasReadyPod(ctx context.Context, s *corev1.Service) (bool, error) {
	var list discoveryv1.EndpointSliceList
	if err := r.client.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: s.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("endpoints of Service %s: %w", s.Name, err)
	}
	return slices.ContainsFunc(list.Items, func(slice discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.Conditions.Ready == nil || *e.Conditions.Ready
		})
	}), nil
}
