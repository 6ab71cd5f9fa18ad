package route

import (
	"errors"
	"fmt"
	"strings"
)

// Validate reports what keeps the rule from being compiled or carried out, naming
// the field.
func (r *Rule) Validate() error {
	return errors.Join(r.ValidateMatches(), r.ValidateFilters())
}

// ValidateMatches reports what makes [NewTable] or [NewSNITable] fail: if there
// is something, nobody knows which requests the rule is for.
func (r *Rule) ValidateMatches() error {
	own := *r
	if _, err := own.compile(make([]entry, max(1, len(r.Matches))), 0); err != nil {
		return err
	}
	return r.wrap(r.checkHosts())
}

// ValidateFilters reports what keeps the filters from being carried out. Valid
// ones write nothing that could end a header line or a path.
func (r *Rule) ValidateFilters() error {
	errs := []error{checkFilters("filters", r.Filters), r.checkPrefixRewrites(r.Filters)}
	for i := range r.Backends {
		errs = append(errs, checkFilters(fmt.Sprintf("backends[%d].filters", i), r.Backends[i].Filters), r.checkPrefixRewrites(r.Backends[i].Filters))
	}
	return r.wrap(errors.Join(errs...))
}

func (r *Rule) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s rule %s: %w", r.Route, r.Name, err)
}

func (r *Rule) checkHosts() error {
	for _, h := range r.Hosts {
		if err := checkHost(h); err != nil {
			return fmt.Errorf("hostnames: %w", err)
		}
	}
	return nil
}

// checkHost takes a DNS name, with "*." in front for a wildcard.
func checkHost(h string) error {
	name := strings.TrimPrefix(h, "*.")
	if name == "" || strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._", c)
	}) {
		return fmt.Errorf(`%q is not a host name, or "*." and a host name`, h)
	}
	return nil
}

// checkPrefixRewrites: the Gateway API allows to replace the prefix that matched
// only where every match is of a prefix.
func (r *Rule) checkPrefixRewrites(filters []Filter) error {
	for _, f := range filters {
		p := rewriteOf(f)
		if p == nil || p.Full {
			continue
		}
		for i := range r.Matches {
			if k := r.Matches[i].Path.Kind; k != PathPrefix && k != PathAny || r.Matches[i].GRPC != nil {
				return fmt.Errorf("filters: the prefix that matched cannot be replaced, as matches[%d] is not of a path prefix", i)
			}
		}
	}
	return nil
}

func rewriteOf(f Filter) *PathRewrite {
	switch f := f.(type) {
	case *Redirect:
		return f.Path
	case *Rewrite:
		return f.Path
	}
	return nil
}

func checkFilters(at string, filters []Filter) error {
	for i, f := range filters {
		if err := checkFilter(f); err != nil {
			return fmt.Errorf("%s[%d]: %w", at, i, err)
		}
	}
	return nil
}

func checkFilter(f Filter) error {
	switch f := f.(type) {
	case *HeaderModifier:
		return f.check()
	case *Redirect:
		return f.check()
	case *Rewrite:
		if f.Hostname != "" {
			if err := checkHost(f.Hostname); err != nil || strings.HasPrefix(f.Hostname, "*") {
				return fmt.Errorf("hostname: %q is not a host name", f.Hostname)
			}
		}
		return f.Path.check()
	case *Mirror:
		if f.Denominator == 0 {
			return errors.New("fraction: the denominator is 0")
		}
	case *CORS:
		return f.check()
	}
	return nil
}
