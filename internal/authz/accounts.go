package authz

import (
	"fmt"
	"strings"
)

// account is a service account of any trust domain.
type account struct{ namespace, name string }

type accounts map[account]struct{}

// newAccounts reads "namespace/name", or "name" for one of namespace.
func newAccounts(list []string, namespace string) (accounts, error) {
	set := make(accounts, len(list))
	for _, s := range list {
		ns, name, ok := strings.Cut(s, "/")
		if !ok {
			ns, name = namespace, s
		}
		if ns == "" || name == "" || strings.ContainsAny(ns+name, "*/") {
			return nil, fmt.Errorf(`%q: a service account is "NAMESPACE/NAME" or "NAME", without wildcards`, s)
		}
		set[account{ns, name}] = struct{}{}
	}
	return set, nil
}
