package mesh

import "encoding/binary"

// memo remembers what was compiled from a list of parts for as long as somebody
// uses it. So services with the same policies share one engine, and a service
// that is built anew for another reason keeps the very tables it had: readers
// may compare pointers to learn whether anything changed for them.
type memo[V any] map[string]*remembered[V]

type remembered[V any] struct {
	key   string
	value V
	users int
}

// take returns what is remembered for key, made if it is new, and counts one
// more user, who has to drop it in the end.
func (m memo[V]) take(key string, compile func() V) *remembered[V] {
	r, ok := m[key]
	if !ok {
		r = &remembered[V]{key: key, value: compile()}
		m[key] = r
	}
	r.users++
	return r
}

// drop gives one use back; nil is nobody's.
func (m memo[V]) drop(r *remembered[V]) {
	if r == nil {
		return
	}
	if r.users--; r.users == 0 && m[r.key] == r {
		delete(m, r.key)
	}
}

// serial tells versions of parts apart. The builder numbers them as they come.
type serial uint64

func (s serial) number() serial { return s }

// fingerprint is the memo key of a list of parts.
func fingerprint[P interface{ number() serial }](parts []P) string {
	key := make([]byte, 0, 8*len(parts))
	for _, p := range parts {
		key = binary.NativeEndian.AppendUint64(key, uint64(p.number()))
	}
	return string(key)
}
