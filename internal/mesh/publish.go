package mesh

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// Publish builds what became stale since the last time and puts the new snapshot
// in force. Nothing stale: nothing happens, and the snapshot stays.
func (b *Builder) Publish() *Snapshot {
	last := b.store.Load()
	if last.Version > 0 && len(b.staleServices) == 0 && len(b.staleWorkloads) == 0 && !b.staleRest {
		return last
	}
	b.buildWorkloads()
	b.buildServices()
	next := *last
	next.Version++
	next.Gateway = b.gateway.Gateway
	next.Services = b.services
	var vipsChanged, hostsChanged, addrsChanged bool
	next.VIPs, vipsChanged = b.vips.publish()
	next.Hosts, hostsChanged = b.hosts.publish()
	next.Workloads, addrsChanged = b.addrs.publish()
	if vipsChanged || hostsChanged || addrsChanged {
		next.OtherVIPs, next.OtherHosts = b.vips.others(), b.hosts.others()
		next.Conflicts = slices.Concat(
			b.vips.conflicts("address", "the first has it", func(s *Service) string { return s.Key }),
			b.hosts.conflicts("host", "the first has the ports that several have", func(s *Service) string { return s.Key }),
			b.addrs.conflicts("workload address", "the first has it", func(w *Workload) string { return w.UID }),
		)
	}
	if b.staleRest {
		next.Rejected = b.rejections()
		b.staleRest = false
	}
	b.store.Publish(&next)
	return &next
}

// rejections lists what was refused, by object.
func (b *Builder) rejections() []Problem {
	reasons := maps.Clone(b.refused)
	for _, p := range b.parts {
		switch p := p.(type) {
		case *RouteSpec:
			if p.Rejected != "" {
				reasons[p.Object()] = p.Rejected
			}
		case *PolicySpec:
			if p.Policy.Invalid != "" {
				reasons[p.Object()] = p.Policy.Invalid
			}
		}
	}
	var problems []Problem
	for object, reason := range reasons {
		problems = append(problems, Problem{object, reason})
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Object, b.Object) })
	return problems
}

// buildWorkloads builds the stale workloads, and makes the services stale that
// have them as endpoints. Old claims to addresses go before new ones come: the
// order of claims may have changed.
func (b *Builder) buildWorkloads() {
	for w := range b.staleWorkloads {
		b.addrs.replace(w.built, nil)
	}
	for w := range b.staleWorkloads {
		engines := w.engines
		if w.spec == nil {
			w.built, w.engines = nil, nil
			delete(b.workloads, w.uid)
		} else {
			w.built = b.buildWorkload(w)
			b.addrs.replace(nil, w.built)
			for key := range w.spec.Serves {
				b.staleServices[b.joint(key)] = struct{}{}
			}
		}
		b.engines.drop(engines)
	}
	clear(b.staleWorkloads)
}

func (b *Builder) buildWorkload(w *workload) *Workload {
	spec := w.spec
	w.forgetLoads()
	built := &Workload{
		UID:         spec.UID,
		Namespace:   spec.Namespace,
		Name:        spec.Name,
		Addrs:       spec.Addrs,
		Identity:    spec.Identity,
		HBONE:       spec.HBONE,
		Ready:       spec.Ready,
		HostNetwork: spec.HostNetwork,
		Attached:    b.frontsWorkload(spec),
		Telemetry:   spec.Telemetry,
		Locality:    spec.Locality,
	}
	w.engines = nil
	if built.Attached {
		w.engines = b.takeEngines(spec.Namespace, nil)
		built.HTTPAuthz, built.TCPAuthz = w.engines.value.http, w.engines.value.tcp
	}
	return built
}

// buildServices builds the stale services.
func (b *Builder) buildServices() {
	if len(b.staleServices) == 0 {
		return
	}
	b.services = maps.Clone(b.services)
	for j := range b.staleServices {
		b.vips.replace(j.built, nil)
		b.hosts.replace(j.built, nil)
	}
	for j := range b.staleServices {
		tables, engines := j.tables, j.engines
		j.tables, j.engines = nil, nil
		if j.spec == nil {
			j.built = nil
			delete(b.services, j.key)
		} else {
			j.built = b.buildService(j)
			b.services[j.key] = j.built
			b.vips.replace(nil, j.built)
			b.hosts.replace(nil, j.built)
		}
		for _, t := range tables {
			b.routes.drop(t)
		}
		b.engines.drop(engines)
		if j.unused() {
			delete(b.joints, j.key)
		}
	}
	clear(b.staleServices)
}

func (b *Builder) buildService(j *joint) *Service {
	spec := j.spec
	svc := &Service{
		Key:       spec.Key,
		Name:      spec.Name,
		Namespace: spec.Namespace,
		Hostname:  spec.Hostname,
		VIPs:      spec.VIPs,
		Attached:  b.frontsService(spec),
		SANs:      spec.SANs,
		Ports:     make([]*Port, len(spec.Ports)),
		Telemetry: spec.Telemetry,
		Locality:  spec.Locality,
		Created:   spec.Created,
	}
	if svc.Attached {
		j.engines = b.takeEngines(spec.Namespace, j.policies)
	}
	for i, p := range spec.Ports {
		port := &Port{Service: svc, Number: p.Number, Name: p.Name, Protocol: p.Protocol}
		port.Endpoints, port.NotReady = endpoints(j, port)
		if svc.Attached {
			b.buildRoutes(j, port)
			port.HTTPAuthz, port.TCPAuthz = j.engines.value.http, j.engines.value.tcp
		}
		svc.Ports[i] = port
	}
	return svc
}

// endpoints lists the workloads that serve a port and are fit to be chosen, in
// the order of their UIDs, and counts those that would be if they were ready.
func endpoints(j *joint, port *Port) (list []*Endpoint, notReady int) {
	list = make([]*Endpoint, 0, len(j.members))
	for _, w := range j.members {
		addr, ok := dialled(w.spec, j.spec.Families)
		if w.spec.Unpicked || !ok {
			continue
		}
		for _, m := range w.spec.Serves[j.key] {
			if m.Service != port.Number {
				continue
			}
			if w.spec.Ready || j.spec.AllowUnready {
				list = append(list, w.endpoint(port, netip.AddrPortFrom(addr, m.Target)))
			} else {
				notReady++
			}
			break
		}
	}
	return list, notReady
}

// dialled chooses the address by which a workload is dialled: the first of the
// families that the service has. A workload with a host name only has none.
func dialled(w *WorkloadSpec, families Families) (addr netip.Addr, ok bool) {
	for _, addr := range w.Addrs {
		if families == AnyFamily || (families == IPv4Only) == addr.Is4() {
			return addr, true
		}
	}
	return netip.Addr{}, len(w.Addrs) == 0 && w.Hostname != ""
}

func (w *workload) endpoint(port *Port, addr netip.AddrPort) *Endpoint {
	load := w.loads[addr]
	if load == nil {
		load = new(Load)
		w.loads[addr] = load
	}
	ep := &Endpoint{Workload: w.built, Addr: addr, SANs: port.Service.SANs, Port: port, Load: load}
	if !addr.Addr().IsValid() {
		ep.Hostname = w.spec.Hostname
	}
	return ep
}

// forgetLoads drops the live state of addresses and ports that are served no
// more.
func (w *workload) forgetLoads() {
	maps.DeleteFunc(w.loads, func(at netip.AddrPort, _ *Load) bool {
		if at.Addr().IsValid() && !slices.Contains(w.spec.Addrs, at.Addr()) {
			return true
		}
		for _, mappings := range w.spec.Serves {
			if slices.ContainsFunc(mappings, func(m PortMapping) bool { return m.Target == at.Port() }) {
				return false
			}
		}
		return true
	})
}
