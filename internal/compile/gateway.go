package compile

import (
	"cmp"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// defaultTrustDomain is what an empty trust domain stands for, as in Istio.
const defaultTrustDomain = "cluster.local"

func gateway(g *waypointv1.Gateway) (*mesh.GatewaySpec, error) {
	serves := g.GetServes()
	out := &mesh.GatewaySpec{
		Key: workload.ServiceName(g.GetNamespace(), g.GetHostname()),
		Gateway: mesh.Gateway{
			Namespace:       g.GetNamespace(),
			Name:            g.GetName(),
			ServesServices:  serves == waypointv1.Gateway_SERVICES || serves == waypointv1.Gateway_SERVICES_AND_WORKLOADS,
			ServesWorkloads: serves == waypointv1.Gateway_WORKLOADS || serves == waypointv1.Gateway_SERVICES_AND_WORKLOADS,
			Locality:        locality(g.GetLocality(), g.GetNode()),
		},
	}
	out.Trust.Domain = cmp.Or(g.GetTrustDomain(), defaultTrustDomain)
	out.Trust.Aliases = g.GetTrustDomainAliases()
	return out, nil
}

func locality(l *workload.Locality, node string) mesh.Locality {
	return mesh.Locality{Region: l.GetRegion(), Zone: l.GetZone(), Node: node}
}
