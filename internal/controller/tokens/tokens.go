// Package tokens finds out which Gateway's waypoint a client of the discovery
// server is, by the bearer token it shows: that of a Kubernetes ServiceAccount,
// bound to our audience.
//
// The API server says whether a token is good (TokenReview). The account has to be
// the one that the asked Gateway's waypoints run as: the one of the Gateway's name
// in the Gateway's namespace. So a token of another namespace, or of another
// account in the same one, is of no use, and neither are the tokens that pods have
// for the API server.
//
// An answer counts for a minute, never longer than the token, and is kept under a
// hash of the token. That is for waypoints that reconnect all at once; the price is
// that a token that is revoked, its pod or account deleted, goes on for as long.
package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
)

// Reviewer authenticates by tokens. It is safe for concurrent use.
type Reviewer struct {
	// Create sends a TokenReview and fills in its status.
	Create func(ctx context.Context, review *authenticationv1.TokenReview) error
	// Audience that a token has to be for.
	Audience string
	// Exists reports whether there is a Gateway of that name to be configured.
	Exists func(discovery.Gateway) bool
	// Now is the clock; nil: time.Now.
	Now func() time.Time

	mu    sync.Mutex // guards known
	known map[[sha256.Size]byte]verdict
}

// verdict is what the API server said of a good token.
type verdict struct {
	namespace, account string
	until              time.Time // when the token expires
	asked              time.Time
}

const (
	remember = time.Minute
	// maxKnown bounds what is remembered; beyond, all is forgotten.
	maxKnown = 10000
)

// Authenticate has the form of discovery.Authenticate.
func (r *Reviewer) Authenticate(ctx context.Context, who discovery.Peer) (discovery.Grant, error) {
	if who.Token == "" {
		return discovery.Grant{}, errors.New("no bearer token: start the waypoint with --token FILE")
	}
	v, err := r.verdict(ctx, who.Token)
	if err != nil {
		return discovery.Grant{}, err
	}
	if v.namespace != who.Asked.Namespace || v.account != who.Asked.Name {
		return discovery.Grant{}, fmt.Errorf("the token is of ServiceAccount %s/%s, and waypoints of Gateway %s run as ServiceAccount %s",
			v.namespace, v.account, who.Asked, who.Asked)
	}
	if !r.Exists(who.Asked) {
		return discovery.Grant{}, fmt.Errorf("there is no Gateway %s, or its class is not one of this controller's", who.Asked)
	}
	return discovery.Grant{Gateway: who.Asked, Until: v.until}, nil
}

func (r *Reviewer) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Reviewer) verdict(ctx context.Context, token string) (verdict, error) {
	key, now := sha256.Sum256([]byte(token)), r.now()
	r.mu.Lock()
	v, ok := r.known[key]
	r.mu.Unlock()
	if ok && now.Before(v.until) && now.Before(v.asked.Add(remember)) {
		return v, nil
	}
	v, err := r.review(ctx, token)
	if err != nil {
		return v, err
	}
	v.asked = now
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxKnown {
		r.known = make(map[[sha256.Size]byte]verdict)
	}
	r.known[key] = v
	return v, nil
}

func (r *Reviewer) review(ctx context.Context, token string) (verdict, error) {
	review := &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{r.Audience}},
	}
	if err := r.Create(ctx, review); err != nil {
		return verdict{}, fmt.Errorf("the API server could not be asked about the token: %w", err)
	}
	switch status := review.Status; {
	case !status.Authenticated:
		return verdict{}, fmt.Errorf("the token is not accepted (audience %s is needed): %s", r.Audience, orUnknown(status.Error))
	case !slices.Contains(status.Audiences, r.Audience):
		return verdict{}, fmt.Errorf("the token is for %v, not for %s", status.Audiences, r.Audience)
	}
	rest, ok := strings.CutPrefix(review.Status.User.Username, "system:serviceaccount:")
	namespace, account, full := strings.Cut(rest, ":")
	if !ok || !full {
		return verdict{}, fmt.Errorf("the token is of %q, which is no ServiceAccount", review.Status.User.Username)
	}
	until, err := expiry(token)
	return verdict{namespace: namespace, account: account, until: until}, err
}

func orUnknown(reason string) string {
	if reason == "" {
		return "no reason was given"
	}
	return reason
}

// expiry reads when a token ends, which a TokenReview does not say. The token has
// been found good before.
func expiry(token string) (time.Time, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, errors.New("the token is no JWT, so it has no expiry: use a projected ServiceAccount token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, fmt.Errorf("the token's claims: %w", err)
	}
	var claims struct {
		Exp int64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return time.Time{}, fmt.Errorf("the token's claims: %w", err)
	}
	if claims.Exp == 0 {
		return time.Time{}, errors.New("the token has no expiry: use a projected ServiceAccount token")
	}
	return time.Unix(claims.Exp, 0), nil
}
