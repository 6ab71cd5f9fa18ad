package authz

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// addrs is a set of addresses as disjoint CIDR blocks in ascending order. Two
// blocks are disjoint or one holds the other, so that without the inner ones
// only the last block that starts at or before an address can hold it.
type addrs []netip.Prefix

func newAddrs(list []string) (addrs, error) {
	var all addrs
	for _, s := range list {
		p, err := parseBlock(s)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	outer := all[:0]
	for _, p := range all {
		if n := len(outer); n == 0 || !outer[n-1].Overlaps(p) {
			outer = append(outer, p)
		}
	}
	return outer, nil
}

// parseBlock reads an address or a CIDR block. IPv4 written as IPv6 is IPv4.
func parseBlock(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is not an IP address or CIDR block", s)
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not an IP address or CIDR block", s)
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

func (s addrs) has(a netip.Addr) bool {
	if !a.IsValid() {
		return false
	}
	a = a.Unmap().WithZone("")
	i, found := slices.BinarySearchFunc(s, a, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	return found || i > 0 && s[i-1].Contains(a)
}
