package translate

import (
	"net/netip"
	"strings"

	networkingapi "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
)

func validateServiceEntry(r *report, se *networkingv1.ServiceEntry) {
	spec := &se.Spec
	r.atLeastOne("spec.hosts", len(spec.Hosts))
	for i, host := range spec.Hosts {
		at := path("spec.hosts").index(i)
		if host == "*" {
			r.errorf(at, `must not be "*"; name a domain such as "*.example.com"`)
			continue
		}
		r.hostname(at, host, true)
	}
	for i, a := range spec.Addresses {
		r.block(path("spec.addresses").index(i), a)
	}
	validateEntryPorts(r, spec.Ports)
	if spec.WorkloadSelector != nil && len(spec.Endpoints) > 0 {
		r.errorf("spec", "must have only one of workloadSelector and endpoints")
	}
	validateResolution(r, spec)
	for i, ep := range spec.Endpoints {
		at := path("spec.endpoints").index(i)
		if ep == nil {
			r.errorf(at, "must not be null")
			continue
		}
		validateWorkloadEntry(r, at, ep)
		if _, err := netip.ParseAddr(ep.Address); err != nil && spec.Resolution == networkingapi.ServiceEntry_STATIC {
			r.errorf(at.at("address"), "must be an IP address with resolution STATIC, got %q", ep.Address)
		}
	}
}

func validateResolution(r *report, spec *networkingapi.ServiceEntry) {
	if _, ok := networkingapi.ServiceEntry_Resolution_name[int32(spec.Resolution)]; !ok {
		r.errorf("spec.resolution", "must be NONE, STATIC, DNS, DNS_ROUND_ROBIN or DYNAMIC_DNS, got %d", spec.Resolution)
	}
	if spec.Resolution == networkingapi.ServiceEntry_NONE && len(spec.Endpoints) > 0 {
		r.errorf("spec.endpoints", "must be empty with resolution NONE: connections go where they were sent")
	}
	dns := spec.Resolution == networkingapi.ServiceEntry_DNS || spec.Resolution == networkingapi.ServiceEntry_DNS_ROUND_ROBIN
	for i, host := range spec.Hosts {
		if dns && len(spec.Endpoints) == 0 && spec.WorkloadSelector == nil && strings.HasPrefix(host, "*") {
			r.errorf(path("spec.hosts").index(i), "must not have a wildcard with resolution %s and no endpoints", spec.Resolution)
		}
	}
}

func validateEntryPorts(r *report, ports []*networkingapi.ServicePort) {
	names, numbers := map[string]bool{}, map[uint32]bool{}
	for i, p := range ports {
		at := path("spec.ports").index(i)
		if p == nil {
			r.errorf(at, "must not be null")
			continue
		}
		r.port(at.at("number"), int64(p.Number))
		if p.TargetPort != 0 {
			r.port(at.at("targetPort"), int64(p.TargetPort))
		}
		r.required(at.at("name"), p.Name)
		if names[p.Name] || numbers[p.Number] {
			r.errorf(at, "the port's name and number must be unique, got %q and %d again", p.Name, p.Number)
		}
		names[p.Name], numbers[p.Number] = true, true
	}
}

// validateWorkloadEntry checks an entry of its own (at "spec") or one in a ServiceEntry.
func validateWorkloadEntry(r *report, at path, ep *networkingapi.WorkloadEntry) {
	if strings.HasPrefix(ep.Address, "unix:") {
		r.errorf(at.at("address"), "a UNIX socket cannot be reached from a waypoint")
	} else if _, err := netip.ParseAddr(ep.Address); err != nil {
		r.hostname(at.at("address"), ep.Address, false)
	}
	for name, port := range ep.Ports {
		r.port(at.at("ports").key(name), int64(port))
	}
}
