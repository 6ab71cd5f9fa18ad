package compile

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
)

// addrOf reads 4 or 16 raw bytes.
func addrOf(raw []byte) (netip.Addr, error) {
	a, ok := netip.AddrFromSlice(raw)
	if !ok {
		return a, fmt.Errorf("an address has %d bytes, neither 4 nor 16", len(raw))
	}
	return a.Unmap(), nil
}

// portOf reads a port number.
func portOf(n uint32) (uint16, error) {
	if n == 0 || n > 65535 {
		return 0, fmt.Errorf("%d is not a port from 1 to 65535", n)
	}
	return uint16(n), nil
}

// waypointKeys are the "namespace/hostname" of the waypoints that are named by
// host. One named by address only is not ours: we know ourselves by name.
func waypointKeys(one *workload.GatewayAddress, several []*workload.WeightedWaypoint) (keys []string) {
	addrs := []*workload.GatewayAddress{one}
	for _, w := range several {
		addrs = append(addrs, w.GetDestination())
	}
	for _, a := range addrs {
		if h := a.GetHostname(); h != nil {
			keys = append(keys, workload.ServiceName(h.GetNamespace(), h.GetHostname()))
		}
	}
	return keys
}

// problems collects what is wrong with one resource.
type problems []error

func (p *problems) add(field string, err error) {
	if err != nil {
		*p = append(*p, fmt.Errorf("%s: %w", field, err))
	}
}

func (p problems) err() error { return errors.Join(p...) }
