package mesh

import (
	"net/netip"
	"testing"
)

// Services of one host name share an address by ports; others share nothing.
func TestSharedAddress(t *testing.T) {
	entry := func(namespace, host string, port uint16) *ServiceSpec {
		s := service(namespace, "entry", "10.0.0.9")
		s.Key, s.Hostname, s.Ports = namespace+"/"+host, host, []PortSpec{{80, "http", HTTP1}, {port, "more", HTTP1}}
		return s
	}
	b := NewBuilder(new(Store))
	b.Set(gateway())
	b.Set(entry("default", "foo.example", 81))
	b.Set(entry("abroad", "foo.example", 82))
	b.Set(entry("thief", "bar.example", 83))
	unattached := entry("else", "foo.example", 84)
	unattached.Waypoints = nil
	b.Set(unattached)
	snap := b.Publish()
	addr := netip.MustParseAddr("10.0.0.9")
	for port, want := range map[uint16]string{80: "default", 81: "default", 82: "abroad", 83: "", 84: "", 85: ""} {
		svc, p := snap.VIP(netip.AddrPortFrom(addr, port))
		byHost, q := snap.Host("foo.example", port)
		if p != q || svc != byHost || svc == nil || (p != nil) != (want != "") || p != nil && (svc.Namespace != want || p.Number != port) {
			t.Errorf("port %d: %v %v by address, %v %v by host, want one of %q", port, svc, p, byHost, q, want)
		}
	}
	b.Remove(Key{ServiceKind, "abroad/foo.example"})
	if _, p := b.Publish().VIP(netip.AddrPortFrom(addr, 82)); p != nil {
		t.Error("a port has outlived its service")
	}
}
