package hbone

import (
	"net/netip"
	"strings"
)

// Forwarded is the forwarded field of a CONNECT (RFC 7239): for whom it is, and
// which service was called. It is a hint for telemetry.
type Forwarded struct {
	For  netip.AddrPort // of the client; not valid if absent or obfuscated
	Host string         // of the destination service; may be empty
}

// ParseForwarded reads the first element of a forwarded field. What it cannot
// read counts as absent.
func ParseForwarded(s string) Forwarded {
	var f Forwarded
	for s != "" {
		var name, value string
		name, value, s = nextPair(s)
		switch {
		case strings.EqualFold(name, "for"):
			if ap, err := netip.ParseAddrPort(value); err == nil && ap.Addr().Zone() == "" {
				f.For = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
			}
		case strings.EqualFold(name, "host"):
			f.Host = value
		}
	}
	return f
}

// nextPair takes name=value off s, the value quoted or not. The rest is empty at
// the end of the first element, and after something that is not a pair.
func nextPair(s string) (name, value, rest string) {
	name, s, _ = strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	if quoted, ok := strings.CutPrefix(s, `"`); ok {
		value, s, ok = strings.Cut(quoted, `"`)
		if !ok || strings.Contains(value, `\`) {
			return "", "", ""
		}
	} else {
		end := strings.IndexAny(s, ";,")
		if end < 0 {
			end = len(s)
		}
		value, s = strings.TrimSpace(s[:end]), s[end:]
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(s, " \t"), ";")
	if !ok {
		rest = ""
	}
	return name, value, rest
}

// String writes the field as ztunnel does.
func (f Forwarded) String() string {
	var s strings.Builder
	if f.For.IsValid() {
		s.WriteString(`for="`)
		s.WriteString(f.For.String())
		s.WriteByte('"')
	}
	if f.Host != "" {
		if s.Len() > 0 {
			s.WriteByte(';')
		}
		s.WriteString("host=")
		s.WriteString(f.Host)
	}
	return s.String()
}
