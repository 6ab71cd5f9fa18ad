package authz

import (
	"fmt"
	"strings"
)

// values is a set of strings in Istio's forms: exact, "prefix*", "*suffix", "*".
type values struct {
	exact    stringSet
	prefixes []string
	suffixes []string
	paths    []template
	any      bool // anything but the empty string
	fold     bool // without regard to ASCII case; the set is in lower case
}

// stringSet is scanned while it is short, and hashed when it is not.
type stringSet struct {
	list []string
	hash map[string]struct{}
}

// shortSet is the length up to which a scan beats a hash: a comparison of
// strings of unequal length costs a nanosecond.
const shortSet = 8

func (s *stringSet) add(v string) {
	s.list = append(s.list, v)
	if len(s.list) <= shortSet {
		return
	}
	if s.hash == nil {
		s.hash = make(map[string]struct{})
		for _, w := range s.list {
			s.hash[w] = struct{}{}
		}
	}
	s.hash[v] = struct{}{}
}

func (s *stringSet) has(v string) bool {
	if s.hash != nil {
		_, ok := s.hash[v]
		return ok
	}
	for _, w := range s.list {
		if w == v {
			return true
		}
	}
	return false
}

func newValues(list []string) (values, error) {
	var v values
	for _, s := range list {
		if err := v.add(s); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (v *values) add(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("an empty value, which would match nothing")
	case s == "*":
		v.any = true
	case strings.HasPrefix(s, "*"):
		v.suffixes = append(v.suffixes, s[1:])
	case strings.HasSuffix(s, "*"):
		v.prefixes = append(v.prefixes, s[:len(s)-1])
	default:
		v.exact.add(s)
	}
	return nil
}

// exactOnly reports whether the set is nothing but strings to be equal to.
func (v *values) exactOnly() bool {
	return !v.any && len(v.prefixes) == 0 && len(v.suffixes) == 0 && len(v.paths) == 0
}

// has reports whether s is in the set. Strings are compared by bytes: what is
// not valid UTF-8 matches like anything else.
func (v *values) has(s string) bool {
	if v.fold {
		return v.hasFold(s)
	}
	if v.any && s != "" || v.exact.has(s) {
		return true
	}
	for _, p := range v.prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	for _, p := range v.suffixes {
		if strings.HasSuffix(s, p) {
			return true
		}
	}
	for i := range v.paths {
		if v.paths[i].match(s) {
			return true
		}
	}
	return false
}

func (v *values) hasFold(s string) bool {
	if v.any && s != "" {
		return true
	}
	for _, e := range v.exact.list {
		if strings.EqualFold(e, s) {
			return true
		}
	}
	for _, p := range v.prefixes {
		if len(s) >= len(p) && strings.EqualFold(s[:len(p)], p) {
			return true
		}
	}
	for _, p := range v.suffixes {
		if len(s) >= len(p) && strings.EqualFold(s[len(s)-len(p):], p) {
			return true
		}
	}
	return false
}
