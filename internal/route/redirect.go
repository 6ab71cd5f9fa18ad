package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Called is the URL that a request was made to, as far as we see it.
type Called struct {
	Scheme      string // "http", unless TLS was ended before us
	Host        string // as sent; its port is not looked at
	Port        uint16 // of the service that was called
	Path, Query string
}

// Location returns the URL to redirect to, for a request that was matched by m
// (HTTPRequestRedirectFilter). The query is kept. The port is the filter's; else,
// if the filter has a scheme, the well-known one of it; else the one called. A
// port that is well known for the scheme is left out.
func (r *Redirect) Location(c Called, m *Match) string {
	scheme, host, port := c.Scheme, hostWithoutPort(c.Host), c.Port
	if r.Scheme != "" {
		scheme, port = r.Scheme, wellKnownPort(r.Scheme)
	}
	if r.Hostname != "" {
		host = r.Hostname
	}
	if r.Port != 0 {
		port = r.Port
	}
	var b strings.Builder
	b.WriteString(scheme)
	b.WriteString("://")
	b.WriteString(host)
	if port != 0 && port != wellKnownPort(scheme) {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(int(port)))
	}
	b.WriteString(JoinTarget(r.Path.Apply(c.Path, m), c.Query))
	return b.String()
}

func wellKnownPort(scheme string) uint16 {
	switch scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}

func hostWithoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		return host[:i]
	}
	return host
}

func (r *Redirect) check() error {
	if r.Scheme != "" && r.Scheme != "http" && r.Scheme != "https" {
		return fmt.Errorf(`scheme: %q is neither "http" nor "https"`, r.Scheme)
	}
	if r.Hostname != "" {
		if err := checkHost(r.Hostname); err != nil || strings.HasPrefix(r.Hostname, "*") {
			return fmt.Errorf("hostname: %q is not a host name", r.Hostname)
		}
	}
	if !slices.Contains([]int{301, 302, 303, 307, 308}, r.Status) {
		return fmt.Errorf("statusCode: %d is none of 301, 302, 303, 307 and 308", r.Status)
	}
	return r.Path.check()
}
