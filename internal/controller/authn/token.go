package authn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/waypoint-mesh/waypoint/internal/bearer"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
)

// verdict is what the API server said of a token.
type verdict struct {
	grant   discovery.Grant
	refusal error     // nil: the token is good
	until   time.Time // for how long that counts
}

// For how long a verdict counts. A token that is refused may become good only by a
// mistake that is mended, of the API server's keys for one.
const remember, rememberRefusal = time.Minute, 10 * time.Second

func (a *Authenticator) byToken(ctx context.Context, text string) (discovery.Grant, error) {
	key, now := sha256.Sum256([]byte(text)), a.o.Now()
	if v, ok := a.remembered(key, now); ok {
		return v.grant, v.refusal
	}
	token := bearer.Parse(text)
	if err := a.checkClaims(token, now); err != nil {
		return discovery.Grant{}, err
	}
	review, err := a.review(ctx, text)
	if err != nil {
		return discovery.Grant{}, err
	}
	v := verdict{until: now.Add(remember)}
	if v.grant, v.refusal = a.judge(review, token); v.refusal != nil {
		v.until = now.Add(rememberRefusal)
	} else if token.Expires.Before(v.until) {
		v.until = token.Expires
	}
	a.keep(key, v)
	return v.grant, v.refusal
}

// checkClaims refuses a token for what it says of itself, unless it says that it is
// good: then the API server is asked.
func (a *Authenticator) checkClaims(t bearer.Token, now time.Time) error {
	switch doubt := t.Doubt(a.o.Audience, now); {
	case t.Expires.IsZero():
		return fmt.Errorf("the token is no JWT, or does not expire: %s", a.cure())
	case doubt != "":
		return fmt.Errorf("the token is of no use, as %s: %s", doubt, a.cure())
	}
	return nil
}

// cure is what to do about a token of the wrong kind.
func (a *Authenticator) cure() string {
	return fmt.Sprintf("mount a projected ServiceAccount token with the audience %q into the pod, and name its file with --token", a.o.Audience)
}

// review asks the API server about a token.
func (a *Authenticator) review(ctx context.Context, text string) (authenticationv1.TokenReviewStatus, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: text, Audiences: []string{a.o.Audience}}}
	err := errors.New("too many clients ask for it at once")
	select {
	case a.asking <- struct{}{}:
		err = a.o.Review(ctx, review)
		<-a.asking
	case <-ctx.Done():
	}
	if err != nil {
		err = status.Errorf(codes.FailedPrecondition, "the API server could not be asked about the token: %v", err)
	}
	return review.Status, err
}

// judge reads what the API server answered.
func (a *Authenticator) judge(answer authenticationv1.TokenReviewStatus, t bearer.Token) (discovery.Grant, error) {
	namespace, account, ok := bearer.Account(answer.User.Username)
	switch {
	case !answer.Authenticated && answer.Error == "":
		return discovery.Grant{}, errors.New("the API server does not accept the token, and gives no reason")
	case !answer.Authenticated:
		return discovery.Grant{}, fmt.Errorf("the API server does not accept the token: %s", answer.Error)
	case !slices.Contains(answer.Audiences, a.o.Audience):
		return discovery.Grant{}, fmt.Errorf("the token is for the audiences %q: %s", answer.Audiences, a.cure())
	case !ok:
		return discovery.Grant{}, fmt.Errorf("the token is of %q, which is no ServiceAccount: %s", answer.User.Username, a.cure())
	}
	return discovery.Grant{Gateway: discovery.Gateway{Namespace: namespace, Name: account}, Until: t.Expires}, nil
}

// remembered looks up what was said of a token, if that counts still.
func (a *Authenticator) remembered(key digest, now time.Time) (verdict, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, ok := a.good[key]
	if !ok {
		v, ok = a.refused[key]
	}
	return v, ok && now.Before(v.until)
}

// keep remembers what was said of a token. The two kinds have room of their own, so
// that a flood of bad tokens does not push out good ones.
func (a *Authenticator) keep(key digest, v verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	into := &a.good
	if v.refusal != nil {
		into = &a.refused
	}
	delete(a.good, key)
	delete(a.refused, key)
	if len(*into) >= maxKnown {
		*into = make(map[digest]verdict)
	}
	(*into)[key] = v
}
