package identity

import (
	"errors"
	"fmt"
	"strings"
)

// ID names a workload: the service account it runs as. It is comparable; the
// zero value is nobody.
type ID struct {
	TrustDomain    string
	Namespace      string
	ServiceAccount string
}

// The longest parts: the trust domain and the whole as the SPIFFE-ID
// specification sections 2.1 and 2.3 have it, the others as Kubernetes names.
const (
	maxURI            = 2048
	maxTrustDomain    = 255
	maxNamespace      = 63
	maxServiceAccount = 253
)

// String returns the SPIFFE URI, or "" for nobody.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	return "spiffe://" + id.TrustDomain + "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount
}

// IsZero reports whether id is nobody.
func (id ID) IsZero() bool { return id == ID{} }

// errForm is completed by the reason.
var errForm = errors.New("not of the form spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT")

// Parse reads a SPIFFE URI. Whatever is not exactly the form that String writes
// is an error: another scheme or its case, user information, a port, a query, a
// fragment, an escape, another number of path segments, an empty or overlong
// part, a character that SPIFFE does not allow.
func Parse(uri string) (ID, error) {
	id, why := parse(uri)
	if why != "" {
		return ID{}, fmt.Errorf("identity %.120q: %w: %s", uri, errForm, why)
	}
	return id, nil
}

func parse(uri string) (id ID, why string) {
	if len(uri) > maxURI {
		return ID{}, "too long"
	}
	rest, ok := strings.CutPrefix(uri, "spiffe://")
	if !ok {
		return ID{}, "the scheme has to be spiffe://"
	}
	// One more than five, so that a sixth shows.
	part := strings.SplitN(rest, "/", 6)
	if len(part) != 5 || part[1] != "ns" || part[3] != "sa" {
		return ID{}, "the path has to be /ns/NAMESPACE/sa/SERVICE-ACCOUNT"
	}
	id = ID{TrustDomain: part[0], Namespace: part[2], ServiceAccount: part[4]}
	switch {
	case !validTrustDomain(id.TrustDomain):
		return ID{}, "the trust domain is empty, too long or has a character other than a-z, 0-9, '.', '-', '_'"
	case !validSegment(id.Namespace, maxNamespace):
		return ID{}, "the namespace is empty, too long or has a character other than letters, digits, '.', '-', '_'"
	case !validSegment(id.ServiceAccount, maxServiceAccount):
		return ID{}, "the service account is empty, too long or has a character other than letters, digits, '.', '-', '_'"
	}
	return id, ""
}

func validTrustDomain(s string) bool {
	if s == "" || len(s) > maxTrustDomain {
		return false
	}
	for i := range len(s) {
		if !isLower(s[i]) {
			return false
		}
	}
	return true
}

func validSegment(s string, limit int) bool {
	if s == "" || len(s) > limit || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		if !isLower(s[i]) && (s[i] < 'A' || s[i] > 'Z') {
			return false
		}
	}
	return true
}

func isLower(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_'
}
