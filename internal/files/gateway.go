package files

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Class is the GatewayClass whose Gateways are waypoints of this kind.
const Class = "waypoint"

// GatewayError says that it is not clear which Gateway we are.
type GatewayError struct {
	Path  string
	Asked string   // "namespace/name"; empty: nobody said
	Found []string // the Gateways of class [Class]
}

// Error names the Gateways and says what to do.
func (e *GatewayError) Error() string {
	found := "none"
	if len(e.Found) > 0 {
		found = strings.Join(e.Found, ", ")
	}
	switch {
	case e.Asked != "":
		return fmt.Sprintf("no readable Gateway %s in %s (Gateways of class %q: %s): name one that is there with --gateway NAMESPACE/NAME", e.Asked, e.Path, Class, found)
	case len(e.Found) == 0:
		return fmt.Sprintf("no readable Gateway of class %q in %s: add one, or name one of another class with --gateway NAMESPACE/NAME", Class, e.Path)
	}
	return fmt.Sprintf("%d Gateways of class %q in %s: choose one of %s with --gateway NAMESPACE/NAME", len(e.Found), Class, e.Path, found)
}

// chooseGateway finds the Gateway that we are among the objects that were read.
func (s *Source) chooseGateway() (translate.Key, error) {
	var ours []translate.Key
	for key := range s.inventory.claims.of {
		winner, _ := s.inventory.claims.decide(key)
		g, ok := winner.object.value.(*gatewayv1.Gateway)
		switch {
		case !ok:
		case s.options.Gateway == key.Namespace+"/"+key.Name:
			return key, nil
		case g.Spec.GatewayClassName == Class:
			ours = append(ours, key)
		}
	}
	if s.options.Gateway == "" && len(ours) == 1 {
		return ours[0], nil
	}
	e := &GatewayError{Path: s.options.Path, Asked: s.options.Gateway}
	for _, key := range ours {
		e.Found = append(e.Found, key.Namespace+"/"+key.Name)
	}
	slices.Sort(e.Found)
	return translate.Key{}, e
}
