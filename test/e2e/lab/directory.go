package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Directory is what istiod tells ztunnels: the workload discovery of the mesh, as
// protobuf's JSON has it. Only what a test's node proxy needs is read.
type Directory struct {
	mu        sync.Mutex
	services  map[string]Service // by "namespace/hostname"
	workloads map[string]Workload
}

// Service is one that clients can ask for.
type Service struct {
	Name, Namespace, Hostname string
	Addresses                 []networkAddress
	Ports                     []port
	Waypoint                  *gatewayAddress
}

// Workload is a pod.
type Workload struct {
	Name, Namespace, ServiceAccount, TrustDomain string
	Addresses                                    [][]byte
	TunnelProtocol, Status                       string
	Services                                     map[string]struct{ Ports []port }
	Waypoint                                     *gatewayAddress
}

type networkAddress struct{ Address []byte }

type port struct{ ServicePort, TargetPort uint16 }

type gatewayAddress struct {
	Hostname *struct{ Namespace, Hostname string }
	Address  *networkAddress
}

// newDirectory starts program, test/meshlab/tools/istio/wds, which ends with us.
func newDirectory(program string) (*Directory, error) {
	d := &Directory{services: make(map[string]Service), workloads: make(map[string]Workload)}
	cmd := exec.Command(program, "10.244.0.1:15010")
	// It ends with its input, of which nobody writes anything.
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		// It follows until the program ends, which it does not of its own accord.
		fmt.Fprintln(os.Stderr, "what istiod says to ztunnels:", errors.Join(d.follow(out), cmd.Wait()))
	}()
	return d, nil
}

func (d *Directory) follow(lines io.Reader) error {
	reader := bufio.NewReader(lines)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return err
		}
		var change struct {
			Name    string
			Removed bool
			Address struct {
				Service  *Service
				Workload *Workload
			}
		}
		if err := json.Unmarshal(line, &change); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		d.mu.Lock()
		switch {
		case change.Removed:
			delete(d.services, change.Name)
			delete(d.workloads, change.Name)
		case change.Address.Service != nil:
			d.services[change.Name] = *change.Address.Service
		case change.Address.Workload != nil:
			d.workloads[change.Name] = *change.Address.Workload
		}
		d.mu.Unlock()
	}
}

// Service returns the one of a host name.
func (d *Directory) Service(hostname string) (Service, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.services {
		if s.Hostname == hostname {
			return s, true
		}
	}
	return Service{}, false
}

// ServiceAt returns the one that has an address.
func (d *Directory) ServiceAt(ip string) (Service, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.services {
		if s.VIP() == ip {
			return s, true
		}
	}
	return Service{}, false
}

// Workload returns the one that has an address.
func (d *Directory) Workload(ip string) (Workload, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workloads {
		if w.IP() == ip {
			return w, true
		}
	}
	return Workload{}, false
}

// WaypointOf is "namespace/hostname" of the waypoint of a Service, empty if it has
// none.
func (d *Directory) WaypointOf(hostname string) string {
	s, _ := d.Service(hostname)
	if s.Waypoint == nil || s.Waypoint.Hostname == nil {
		return ""
	}
	return s.Waypoint.Hostname.Namespace + "/" + s.Waypoint.Hostname.Hostname
}

// endpoint is where a connection goes.
type endpoint struct {
	Workload
	addr string // with the port
}

// Endpoints counts the healthy workloads of a service, "namespace/hostname", that
// serve a port of it.
func (d *Directory) Endpoints(service string, servicePort uint16) int {
	return len(d.endpoints(service, servicePort))
}

func (d *Directory) endpoints(service string, servicePort uint16) (found []endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workloads {
		ports, ok := w.Services[service]
		if !ok || w.Status == "UNHEALTHY" || len(w.Addresses) == 0 {
			continue
		}
		for _, p := range ports.Ports {
			if p.ServicePort == servicePort {
				found = append(found, endpoint{w, net.JoinHostPort(w.IP(), strconv.Itoa(int(p.TargetPort)))})
			}
		}
	}
	return found
}

// endpoint chooses one of them, as ztunnel does: at random.
func (d *Directory) endpoint(service string, servicePort uint16) (endpoint, error) {
	found := d.endpoints(service, servicePort)
	if len(found) == 0 {
		return endpoint{}, fmt.Errorf("istiod tells of no healthy endpoint of %s for port %d", service, servicePort)
	}
	return found[rand.N(len(found))], nil
}

// IP is the workload's first address.
func (w Workload) IP() string {
	if len(w.Addresses) == 0 {
		return ""
	}
	ip, _ := netip.AddrFromSlice(w.Addresses[0])
	return ip.String()
}

// ID is who the workload is. istiod leaves out what is usual.
func (w Workload) ID() string {
	id := identity.ID{TrustDomain: w.TrustDomain, Namespace: w.Namespace, ServiceAccount: w.ServiceAccount}
	if id.TrustDomain == "" {
		id.TrustDomain = "cluster.local"
	}
	if id.ServiceAccount == "" {
		id.ServiceAccount = "default"
	}
	return id.String()
}

// HBONE reports whether the workload is to be reached by a tunnel.
func (w Workload) HBONE() bool { return w.TunnelProtocol == "HBONE" }

// VIP is the service's first address.
func (s Service) VIP() string {
	if len(s.Addresses) == 0 {
		return ""
	}
	ip, _ := netip.AddrFromSlice(s.Addresses[0].Address)
	return ip.String()
}

// FullName makes a host name of "cart", "cart.shop" or a whole one, as a pod's
// search domains do.
func FullName(host, namespace string) string {
	switch strings.Count(host, ".") {
	case 0:
		return host + "." + namespace + ".svc.cluster.local"
	case 1:
		return host + ".svc.cluster.local"
	}
	return host
}
