package hbone

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Target is where a CONNECT wants to go: an IP address or a host name, and a
// port.
type Target struct {
	Addr netip.Addr // invalid if Host is set; never an IPv4-mapped IPv6 address
	Host string     // lower case
	Port uint16
}

// String writes the target as an authority.
func (t Target) String() string {
	if t.Host != "" {
		return t.Host + ":" + strconv.Itoa(int(t.Port))
	}
	return netip.AddrPortFrom(t.Addr, t.Port).String()
}

// AddrPort returns the address, which is not valid for a host name.
func (t Target) AddrPort() netip.AddrPort { return netip.AddrPortFrom(t.Addr, t.Port) }

// maxHost is the longest host name, RFC 1035 section 2.3.4.
const maxHost = 253

var (
	errNoPort   = errors.New("want host:port or [address]:port")
	errPort     = errors.New("the port has to be a number between 1 and 65535 without leading zeros")
	errBrackets = errors.New("an IPv6 address has to be in brackets, and nothing else")
	errHost     = errors.New("the host is neither an IP address nor a host name of letters, digits, '-', '_' and dots")
)

// ParseTarget reads the authority of a CONNECT: ip:port, [ip]:port or host:port.
// The port is required (RFC 9110 section 9.3.6). Zones, user information, and
// spellings of a number that look like another address are errors.
func ParseTarget(authority string) (Target, error) {
	t, err := parseTarget(authority)
	if err != nil {
		return Target{}, fmt.Errorf("CONNECT authority %.300q: %w", authority, err)
	}
	return t, nil
}

func parseTarget(authority string) (t Target, err error) {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 {
		return Target{}, errNoPort
	}
	host := authority[:colon]
	if t.Port, err = parsePort(authority[colon+1:]); err != nil {
		return Target{}, err
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return Target{}, errBrackets
		}
		t.Addr = addr.Unmap()
		return t, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if !addr.Is4() {
			return Target{}, errBrackets
		}
		t.Addr = addr
		return t, nil
	}
	if t.Host, err = parseHost(host); err != nil {
		return Target{}, err
	}
	return t, nil
}

func parsePort(s string) (uint16, error) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, errPort
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, errPort
	}
	return uint16(n), nil
}

// parseHost returns the name in lower case, without the dot that a fully qualified
// one may end in. A last label of digits alone is refused: resolvers take 1.2.3 and
// 010.0.0.1 for addresses, and not for the same ones.
func parseHost(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > maxHost {
		return "", errHost
	}
	digits := true
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return "", errHost
		}
		digits = true
		for i := range len(label) {
			switch c := label[i]; {
			case '0' <= c && c <= '9':
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-', c == '_':
				digits = false
			default:
				return "", errHost
			}
		}
	}
	if digits {
		return "", errHost
	}
	return strings.ToLower(s), nil
}
