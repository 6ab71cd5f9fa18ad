package tokens

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
)

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestAuthenticate(t *testing.T) {
	now := time.Unix(1000, 0)
	good := jwt(`{"exp":5000}`)
	shop := discovery.Gateway{Namespace: "shop", Name: "waypoint"}
	for name, c := range map[string]struct {
		token  string
		user   string
		status authenticationv1.TokenReviewStatus
		err    error
		absent bool
		want   string // in the error; empty: granted
	}{
		"its own account":     {token: good, user: "system:serviceaccount:shop:waypoint"},
		"another namespace":   {token: good, user: "system:serviceaccount:bank:waypoint", want: "the token is of ServiceAccount bank/waypoint"},
		"another account":     {token: good, user: "system:serviceaccount:shop:default", want: "waypoints of Gateway shop/waypoint run as"},
		"no account":          {token: good, user: "system:admin", want: `"system:admin", which is no ServiceAccount`},
		"no token":            {want: "no bearer token"},
		"no such Gateway":     {token: good, user: "system:serviceaccount:shop:waypoint", absent: true, want: "there is no Gateway shop/waypoint"},
		"wrong audience":      {token: good, status: authenticationv1.TokenReviewStatus{Error: "invalid for audience x"}, want: "invalid for audience x"},
		"no reason":           {token: good, want: "no reason was given"},
		"API server is away":  {token: good, err: errors.New("connection refused"), want: "could not be asked about the token: connection refused"},
		"never expires":       {token: jwt(`{}`), user: "system:serviceaccount:shop:waypoint", want: "no expiry"},
		"not a JWT":           {token: "secret", user: "system:serviceaccount:shop:waypoint", want: "no JWT"},
		"claims are no JSON":  {token: jwt(`{`), user: "system:serviceaccount:shop:waypoint", want: "claims"},
		"claims not encoded":  {token: "a.!.c", user: "system:serviceaccount:shop:waypoint", want: "claims"},
		"nothing but a colon": {token: good, user: "system:serviceaccount:", want: "no ServiceAccount"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reviewer{
				Audience: "ours", Now: func() time.Time { return now },
				Exists: func(discovery.Gateway) bool { return !c.absent },
				Create: func(_ context.Context, review *authenticationv1.TokenReview) error {
					review.Status = c.status
					if c.user != "" {
						review.Status.Authenticated, review.Status.User.Username = true, c.user
						review.Status.Audiences = review.Spec.Audiences
					}
					return c.err
				},
			}
			grant, err := r.Authenticate(t.Context(), discovery.Peer{Token: c.token, Asked: shop})
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q in it", err, c.want)
			case c.want == "" && (err != nil || grant.Gateway != shop || !grant.Until.Equal(time.Unix(5000, 0))):
				t.Errorf("got %v, %v", grant, err)
			}
		})
	}
}

func TestAnswersAreKeptBriefly(t *testing.T) {
	now, asked := time.Unix(1000, 0), 0
	r := &Reviewer{
		Audience: "ours", Now: func() time.Time { return now },
		Exists: func(discovery.Gateway) bool { return true },
		Create: func(_ context.Context, review *authenticationv1.TokenReview) error {
			asked++
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{"ours"}}
			review.Status.User.Username = "system:serviceaccount:shop:waypoint"
			return nil
		},
	}
	try := func(token string) {
		t.Helper()
		if _, err := r.Authenticate(t.Context(), discovery.Peer{Token: token, Asked: discovery.Gateway{Namespace: "shop", Name: "waypoint"}}); err != nil {
			t.Fatal(err)
		}
	}
	long, short := jwt(`{"exp":5000}`), jwt(fmt.Sprintf(`{"exp":%d}`, now.Unix()+10))
	for step, c := range []struct {
		token string
		after time.Duration
		want  int // times that the API server was asked
	}{
		{long, 0, 1},
		{long, 59 * time.Second, 1},
		{long, time.Second, 2}, // a minute is over
		{short, -time.Minute, 3},
		{short, 9 * time.Second, 3},
		{short, time.Second, 4}, // expired: that is for the API server to say
	} {
		now = now.Add(c.after)
		if try(c.token); asked != c.want {
			t.Errorf("step %d: asked %d times, want %d", step, asked, c.want)
		}
	}
}
