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
	Path    string
	Asked   string   // "namespace/name"; empty: nobody said
	Found   []string // the Gateways of class [Class]
	Refused []string // Gateways that cannot be read, each with the reason
}

// Error names the Gateways and says what to do.
func (e *GatewayError) Error() string {
	var s string
	switch {
	case e.Asked != "" && len(e.Found) == 0:
		s = fmt.Sprintf("no Gateway %s in %s: add it, or name one that is there with --gateway NAMESPACE/NAME", e.Asked, e.Path)
	case e.Asked != "":
		s = fmt.Sprintf("no Gateway %s in %s: name one that is there with --gateway NAMESPACE/NAME, such as %s", e.Asked, e.Path, strings.Join(e.Found, ", "))
	case len(e.Found) == 0:
		s = fmt.Sprintf("no Gateway of class %q in %s: add one, or name one of another class with --gateway NAMESPACE/NAME", Class, e.Path)
	default:
		s = fmt.Sprintf("%d Gateways of class %q in %s: choose one of %s with --gateway NAMESPACE/NAME", len(e.Found), Class, e.Path, strings.Join(e.Found, ", "))
	}
	for _, refused := range e.Refused {
		s += "; refused: " + refused
	}
	return s
}

// chooseGateway finds the Gateway that we are among the objects that were read.
func (s *Source) chooseGateway() (translate.Key, error) {
	var ours []translate.Key
	e := &GatewayError{Path: s.options.Path, Asked: s.options.Gateway}
	for key := range s.inventory.claims.of {
		winner, _ := s.inventory.claims.decide(key)
		g, ok := winner.object.value.(*gatewayv1.Gateway)
		switch {
		case key.Kind != "Gateway":
		case !ok:
			e.Refused = append(e.Refused, Problem{File: winner.file.name, Line: winner.object.doc.line, Fault: winner.object.rejected.Error()}.String())
		case s.options.Gateway == name(key):
			return key, nil
		case g.Spec.GatewayClassName == Class:
			ours = append(ours, key)
			e.Found = append(e.Found, name(key))
		}
	}
	if s.options.Gateway == "" && len(ours) == 1 {
		return ours[0], nil
	}
	slices.Sort(e.Found)
	slices.Sort(e.Refused)
	return translate.Key{}, e
}

// name is "namespace/name".
func name(key translate.Key) string { return key.Namespace + "/" + key.Name }
