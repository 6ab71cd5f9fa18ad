package route

// Pick chooses a backend by weight: r is a random number. Nil: no backend has
// any weight, and the answer is 500 (Gateway API, HTTPRouteRule.backendRefs).
func (r *Rule) Pick(random uint32) *Backend {
	var total uint64
	for i := range r.Backends {
		total += uint64(r.Backends[i].Weight)
	}
	// The top of the product, instead of a remainder: no bias towards the first.
	point := uint64(random) * total >> 32
	for i := range r.Backends {
		w := uint64(r.Backends[i].Weight)
		if point < w {
			return &r.Backends[i]
		}
		point -= w
	}
	return nil
}
