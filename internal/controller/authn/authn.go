package authn

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Options of an [Authenticator].
type Options struct {
	// Review sends a TokenReview and fills in its status.
	Review func(ctx context.Context, review *authenticationv1.TokenReview) error
	// Audience that a token has to be for.
	Audience string
	// Roots reads the roots that certificates have to lead to, PEM; nil:
	// certificates are not accepted.
	Roots Roots
	// Trust is the trust domain that certificates have to be of.
	Trust identity.Trust
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Authenticator authenticates clients. It is safe for concurrent use.
type Authenticator struct {
	o      Options
	asking chan struct{} // holds one for each TokenReview under way

	mu      sync.Mutex // guards good and refused
	good    map[digest]verdict
	refused map[digest]verdict

	roots meshRoots
}

// digest is what is kept of a token.
type digest = [sha256.Size]byte

const (
	// maxAsking bounds the reviews under way. The API server takes milliseconds
	// over each, so that a thousand waypoints that come back at once wait for a
	// second or so.
	maxAsking = 16
	// maxKnown bounds what is remembered, of either kind; beyond, that kind is
	// forgotten.
	maxKnown = 10000
)

// New makes an authenticator.
func New(o Options) *Authenticator {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Authenticator{
		o: o, asking: make(chan struct{}, maxAsking),
		good: make(map[digest]verdict), refused: make(map[digest]verdict),
	}
}

// Authenticate has the form of discovery.Authenticate. Of a client that shows both,
// the token counts. What is not the client's fault is a FailedPrecondition.
func (a *Authenticator) Authenticate(ctx context.Context, who discovery.Peer) (discovery.Grant, error) {
	if who.Token != "" {
		return a.byToken(ctx, who.Token)
	}
	return a.byCertificate(ctx, who.Chain)
}
