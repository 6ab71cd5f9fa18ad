package compile

import (
	"errors"
	"fmt"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

func filters(list []*waypointv1.Filter) (out []route.Filter, err error) {
	var faults problems
	for i, f := range list {
		filter, err := filterOf(f)
		faults.add(fmt.Sprintf("filters[%d]", i), err)
		if err == nil {
			out = append(out, filter)
		}
	}
	return out, faults.err()
}

func filterOf(f *waypointv1.Filter) (route.Filter, error) {
	switch k := f.GetKind().(type) {
	case *waypointv1.Filter_RequestHeaders:
		return headerModifier(k.RequestHeaders, false), nil
	case *waypointv1.Filter_ResponseHeaders:
		return headerModifier(k.ResponseHeaders, true), nil
	case *waypointv1.Filter_Redirect:
		return redirect(k.Redirect)
	case *waypointv1.Filter_Rewrite:
		return &route.Rewrite{Hostname: k.Rewrite.GetHostname(), Path: pathRewrite(k.Rewrite.GetPath())}, nil
	case *waypointv1.Filter_Mirror:
		return mirror(k.Mirror)
	case *waypointv1.Filter_Cors:
		return cors(k.Cors), nil
	}
	return nil, errors.New("has no kind that is known")
}

func headerModifier(h *waypointv1.HeaderModifier, response bool) *route.HeaderModifier {
	fields := func(list []*waypointv1.Header) (out []route.Field) {
		for _, f := range list {
			out = append(out, route.Field{Name: f.GetName(), Value: f.GetValue()})
		}
		return out
	}
	return &route.HeaderModifier{Response: response, Set: fields(h.GetSet()), Add: fields(h.GetAdd()), Remove: h.GetRemove()}
}

func redirect(r *waypointv1.Redirect) (*route.Redirect, error) {
	if r.GetPort() > 65535 {
		return nil, fmt.Errorf("port: %d is not a port", r.GetPort())
	}
	return &route.Redirect{
		Scheme:   r.GetScheme(),
		Hostname: r.GetHostname(),
		Port:     uint16(r.GetPort()),
		Path:     pathRewrite(r.GetPath()),
		Status:   int(r.GetStatus()),
	}, nil
}

func pathRewrite(p *waypointv1.PathModifier) *route.PathRewrite {
	switch k := p.GetKind().(type) {
	case *waypointv1.PathModifier_Full:
		return &route.PathRewrite{Full: true, Value: k.Full}
	case *waypointv1.PathModifier_Prefix:
		return &route.PathRewrite{Value: k.Prefix}
	}
	return nil
}

// mirror of a service that is not known is no error: the copies go nowhere.
func mirror(m *waypointv1.Mirror) (*route.Mirror, error) {
	port, err := portOf(m.GetPort())
	if err != nil {
		return nil, fmt.Errorf("port: %w", err)
	}
	return &route.Mirror{
		Backend:     route.Backend{Service: m.GetService().Key(), Port: port, Weight: 1},
		Numerator:   m.GetNumerator(),
		Denominator: m.GetDenominator(),
	}, nil
}

func cors(c *waypointv1.Cors) *route.CORS {
	return &route.CORS{
		AllowOrigins:     c.GetAllowOrigins(),
		AllowCredentials: c.GetAllowCredentials(),
		AllowMethods:     c.GetAllowMethods(),
		AllowHeaders:     c.GetAllowHeaders(),
		ExposeHeaders:    c.GetExposeHeaders(),
		MaxAge:           c.GetMaxAge().AsDuration(),
	}
}

// backendOf gives a backend whose share is answered 500 for one that cannot be
// used.
func backendOf(b *waypointv1.Backend) (out route.Backend, err error) {
	out = route.Backend{Weight: b.GetWeight(), Service: b.GetService().Key(), Invalid: b.GetInvalid()}
	if out.Filters, err = filters(b.GetFilters()); err != nil {
		return out, err
	}
	if out.Invalid != "" {
		out.Service = ""
		return out, nil
	}
	if b.GetService() == nil {
		out.Invalid = "it names no service"
		return out, errors.New("target: has no kind that is known")
	}
	if out.Port, err = portOf(b.GetPort()); err != nil {
		out.Invalid = err.Error()
		return out, fmt.Errorf("port: %w", err)
	}
	return out, nil
}
