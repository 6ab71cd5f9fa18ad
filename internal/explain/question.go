package explain

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/waypoint-mesh/waypoint/internal/decide"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/route"
)

// Question is who asks for what.
type Question struct {
	From     string `json:"from"`               // SPIFFE URI of the client
	FromIP   string `json:"fromIP,omitempty"`   // its address, as the tunnel's peer
	RemoteIP string `json:"remoteIP,omitempty"` // the client that a trusted hop vouches for
	To       string `json:"to"`                 // the CONNECT target: address or host name, and port
	SNI      string `json:"sni,omitempty"`      // for TLS inside

	// Method and URL of a request; without a method it is a connection. The URL
	// may be a path alone: the host is then that of To.
	Method  string   `json:"method,omitempty"`
	URL     string   `json:"url,omitempty"`
	Headers []Header `json:"headers,omitempty"`
}

// Header is one header line.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Parse reads a question as JSON.
func Parse(body []byte) (Question, error) {
	var q Question
	if err := json.Unmarshal(body, &q); err != nil {
		return q, fmt.Errorf(`the question is not JSON like {"from": "spiffe://...", "to": "10.0.0.1:80", "method": "GET", "url": "/"}: %w`, err)
	}
	return q, nil
}

// caller reads who asks.
func (q *Question) caller() (c decide.Caller, err error) {
	if c.Peer, err = identity.Parse(q.From); err != nil {
		return c, fmt.Errorf("from: %w", err)
	}
	if c.Addr, err = parseAddr("fromIP", q.FromIP); err != nil {
		return c, err
	}
	if c.Remote, err = parseAddr("remoteIP", q.RemoteIP); err != nil {
		return c, err
	}
	c.SNI = q.SNI
	return c, nil
}

// parseAddr reads an address that may be left out.
func parseAddr(field, s string) (netip.Addr, error) {
	if s == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, fmt.Errorf("%s: %q is not an IP address", field, s)
	}
	return a.Unmap(), nil
}

// destination finds what To stands for. notServed is why it is nothing here.
func (q *Question) destination(snap *mesh.Snapshot) (d decide.Destination, notServed, err error) {
	host, text, err := net.SplitHostPort(q.To)
	if err != nil {
		return d, nil, fmt.Errorf("to: %q is not HOST:PORT", q.To)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return d, nil, fmt.Errorf("to: %q is not a port", text)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		d, notServed = decide.Address(snap, netip.AddrPortFrom(addr, uint16(port)))
	} else {
		d, notServed = decide.Host(snap, host, uint16(port))
	}
	return d, notServed, nil
}

// request reads what is asked for. The error is a request that is answered 400.
func (q *Question) request(c decide.Caller) (r decide.Request, err error) {
	r = decide.Request{Caller: c, Method: q.Method, Host: q.To}
	target := q.URL
	if _, rest, ok := strings.Cut(q.URL, "://"); ok {
		r.Host, target = rest, "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			r.Host, target = rest[:i], rest[i:]
		}
	}
	if target == "" || target[0] == '?' {
		target = "/" + target
	}
	for _, h := range q.Headers {
		name := strings.ToLower(h.Name)
		if name == "host" {
			r.Host = h.Value
			continue
		}
		r.GRPC = r.GRPC || name == "content-type" && route.IsGRPC(h.Value)
		r.Headers = append(r.Headers, decide.Field{Name: name, Value: h.Value})
	}
	r.Path, r.Query, err = route.NormalizeTarget(q.Method, target)
	return r, err
}
