package mesh

import (
	"testing"

	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

// waypointGateway is what a user applies to have a waypoint.
const waypointGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: NS}
spec: {gatewayClassName: waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
`

func TestFirstWaypoint(t *testing.T) {
	s := lab.NewStory(t)
	s.Apply(waypointGateway)
	g := s.Programmed("waypoint")
	t.Log(g.Status)
}
