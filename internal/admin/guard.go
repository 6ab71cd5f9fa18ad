package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard lets only those in who came here on purpose. A page in somebody's
// browser can send requests to the loopback address, too:
//
//   - under a host name of its own that it has made resolve to that address, so
//     only addresses and localhost are taken for the name of this port;
//   - without being able to read the answer, so changes are refused to other
//     origins.
func guard(h http.Handler) http.Handler {
	h = http.NewCrossOriginProtection().Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownHost(r.Host) {
			http.Error(w, "this port answers to localhost and to IP addresses, not to other host names", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

func ownHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost")
}
