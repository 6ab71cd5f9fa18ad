package route

import "strings"

// NormalizeHost returns a host for comparison: in lower case, without port and
// final dot. It allocates only if there are upper-case letters.
func NormalizeHost(host string) string {
	if strings.HasPrefix(host, "[") { // an IPv6 address
		if i := strings.IndexByte(host, ']'); i >= 0 {
			host = host[:i+1]
		}
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// byHost finds values by host name, the most specific first: the very name, then
// wildcards by the length of what they fix, then values for any host.
type byHost[T any] struct {
	exact    map[string]T
	wildcard map[string]T // by what follows "*": ".example.com"
	any      T
}

// at returns the values for a host pattern to be filled in; "" is any host.
func (h *byHost[T]) at(pattern string, fresh func() T) T {
	m, key := &h.exact, NormalizeHost(pattern)
	if rest, ok := strings.CutPrefix(key, "*"); ok {
		m, key = &h.wildcard, rest
	}
	if *m == nil {
		*m = make(map[string]T)
	}
	if _, ok := (*m)[key]; !ok {
		(*m)[key] = fresh()
	}
	return (*m)[key]
}

// find calls try with the values for host until it reports success. A wildcard
// stands for one or more labels (Gateway API, Hostname).
func (h *byHost[T]) find(host string, try func(T) bool) bool {
	if v, ok := h.exact[host]; ok && try(v) {
		return true
	}
	for rest := host; len(h.wildcard) > 0; {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			break
		}
		if v, ok := h.wildcard[rest[dot:]]; ok && dot > 0 && try(v) {
			return true
		}
		rest = rest[dot+1:]
	}
	return try(h.any)
}

// each calls f with all values.
func (h *byHost[T]) each(f func(T)) {
	for _, v := range h.exact {
		f(v)
	}
	for _, v := range h.wildcard {
		f(v)
	}
	f(h.any)
}
