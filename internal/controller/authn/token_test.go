package authn

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
)

// jwt of the account waypoint in shop, with these claims beside.
func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:shop:waypoint",`+claims+"}")) + ".c2ln"
}

var (
	start = time.Unix(1000, 0)
	shop  = discovery.Gateway{Namespace: "shop", Name: "waypoint"}
)

// apiServer answers TokenReviews.
type apiServer struct {
	user   string // whose token it is; empty: not authenticated
	status authenticationv1.TokenReviewStatus
	err    error
	asked  atomic.Int64
}

func (s *apiServer) review(_ context.Context, review *authenticationv1.TokenReview) error {
	s.asked.Add(1)
	review.Status = s.status
	if s.user != "" {
		review.Status.Authenticated, review.Status.User.Username = true, s.user
		if review.Status.Audiences == nil {
			review.Status.Audiences = review.Spec.Audiences
		}
	}
	return s.err
}

func TestTokens(t *testing.T) {
	good := jwt(`"aud":["ours"],"exp":5000`)
	for name, c := range map[string]struct {
		token string
		api   *apiServer
		want  string // in the error; empty: granted
		code  codes.Code
		asks  bool
	}{
		"its own account":    {token: good, api: &apiServer{user: "system:serviceaccount:shop:waypoint"}, asks: true},
		"no account":         {token: good, api: &apiServer{user: "system:admin"}, want: `"system:admin", which is no ServiceAccount`, asks: true},
		"half an account":    {token: good, api: &apiServer{user: "system:serviceaccount:shop"}, want: "no ServiceAccount", asks: true},
		"forged":             {token: good, api: &apiServer{status: authenticationv1.TokenReviewStatus{Error: "invalid signature"}}, want: "invalid signature", asks: true},
		"no reason":          {token: good, api: &apiServer{}, want: "gives no reason", asks: true},
		"another audience":   {token: jwt(`"aud":["istio-ca"],"exp":5000`), want: `for the audience "istio-ca", wanted is "ours": mount a projected`},
		"audience of others": {token: jwt(`"exp":5000`), api: &apiServer{user: "system:serviceaccount:shop:waypoint", status: authenticationv1.TokenReviewStatus{Audiences: []string{"x"}}}, want: `for the audiences ["x"]`, asks: true},
		"expired":            {token: jwt(`"aud":["ours"],"exp":1000`), want: "it expired at 1970-01-01T00:16:40Z"},
		"never expires":      {token: jwt(`"aud":["ours"]`), want: "does not expire"},
		"garbage":            {token: "secret", want: "no JWT"},
		"claims are no JSON": {token: "e30.e.c2ln", want: "no JWT"},
		"of nobody":          {token: "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":5000,"aud":"ours"}`)) + ".x", want: "not that of a Kubernetes service account"},
		"API server is away": {token: good, api: &apiServer{err: errors.New("connection refused")}, want: "could not be asked about the token: connection refused", code: codes.FailedPrecondition, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := c.api
			if api == nil {
				api = &apiServer{}
			}
			a := New(Options{Audience: "ours", Now: func() time.Time { return start }, Review: api.review})
			grant, err := a.Authenticate(t.Context(), discovery.Peer{Token: c.token})
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q in it", err, c.want)
			case c.want == "" && (err != nil || grant.Gateway != shop || !grant.Until.Equal(time.Unix(5000, 0))):
				t.Errorf("got %v, %v", grant, err)
			case c.code != codes.OK && status.Code(err) != c.code:
				t.Errorf("the code is %v, want %v", status.Code(err), c.code)
			}
			if asked := api.asked.Load() > 0; asked != c.asks {
				t.Errorf("the API server was asked: %v", asked)
			}
		})
	}
}

// TestAnswersAreKeptBriefly: a minute, or ten seconds if it is a refusal, and never
// past the end of the token.
func TestAnswersAreKeptBriefly(t *testing.T) {
	now, api := start, &apiServer{}
	a := New(Options{Audience: "ours", Now: func() time.Time { return now }, Review: api.review})
	long, short := jwt(`"exp":5000`), jwt(fmt.Sprintf(`"exp":%d`, start.Unix()+90))
	for step, c := range []struct {
		after time.Duration
		token string
		user  string // that the API server says
		good  bool
		asked int64 // in all
	}{
		{0, long, "system:serviceaccount:shop:waypoint", true, 1},
		{59 * time.Second, long, "", true, 1}, // the API server thinks otherwise by now
		{0, short, "system:serviceaccount:shop:waypoint", true, 2},
		{time.Second, long, "", false, 3}, // a minute is over
		{9 * time.Second, long, "system:serviceaccount:shop:waypoint", false, 3},
		{time.Second, long, "system:serviceaccount:shop:waypoint", true, 4}, // ten seconds are over
		{19 * time.Second, short, "", true, 4},                              // the last of its life
		{time.Second, short, "system:serviceaccount:shop:waypoint", false, 4},
	} {
		now, api.user = now.Add(c.after), c.user
		if _, err := a.Authenticate(t.Context(), discovery.Peer{Token: c.token}); (err == nil) != c.good || api.asked.Load() != c.asked {
			t.Errorf("step %d: %v, asked %d times in all, want good %v, %d", step, err, api.asked.Load(), c.good, c.asked)
		}
	}
}

// TestFailureIsNotRemembered: it says nothing of the token.
func TestFailureIsNotRemembered(t *testing.T) {
	api := &apiServer{user: "system:serviceaccount:shop:waypoint", err: errors.New("timeout")}
	a := New(Options{Audience: "ours", Now: func() time.Time { return start }, Review: api.review})
	if _, err := a.Authenticate(t.Context(), discovery.Peer{Token: jwt(`"exp":5000`)}); err == nil {
		t.Fatal("granted")
	}
	api.err = nil
	if _, err := a.Authenticate(t.Context(), discovery.Peer{Token: jwt(`"exp":5000`)}); err != nil {
		t.Error(err)
	}
}

// TestFlood: of tokens that cost a review each, only so many are under way, what is
// remembered is bounded, and good ones stay remembered.
func TestFlood(t *testing.T) {
	var underWay, most atomic.Int64
	api := &apiServer{user: "system:serviceaccount:shop:waypoint"}
	a := New(Options{Audience: "ours", Now: func() time.Time { return start }, Review: func(ctx context.Context, r *authenticationv1.TokenReview) error {
		now := underWay.Add(1)
		defer underWay.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		return api.review(ctx, r)
	}})
	good := discovery.Peer{Token: jwt(`"exp":5000`)}
	if _, err := a.Authenticate(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	api.user = ""
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for n := range maxKnown / 32 {
				if _, err := a.Authenticate(t.Context(), discovery.Peer{Token: jwt(fmt.Sprintf(`"exp":5000,"n":"%d/%d"`, worker, n))}); err == nil {
					t.Error("granted")
				}
			}
		})
	}
	all.Wait()
	if most.Load() > maxAsking {
		t.Errorf("%d reviews at once", most.Load())
	}
	if len(a.refused) > maxKnown {
		t.Errorf("%d refusals are kept", len(a.refused))
	}
	if _, err := a.Authenticate(t.Context(), good); err != nil {
		t.Errorf("the good one was forgotten: %v", err)
	}
}

// TestAPIServerHangs: who waits for it is let go with its patience.
func TestAPIServerHangs(t *testing.T) {
	began, release := make(chan struct{}, maxAsking), make(chan struct{})
	a := New(Options{Audience: "ours", Now: func() time.Time { return start }, Review: func(context.Context, *authenticationv1.TokenReview) error {
		began <- struct{}{}
		<-release
		return nil
	}})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(release)
	for n := range maxAsking {
		all.Go(func() {
			_, _ = a.Authenticate(context.Background(), discovery.Peer{Token: jwt(fmt.Sprintf(`"exp":5000,"n":%d`, n))})
		})
	}
	for range maxAsking {
		<-began
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := a.Authenticate(ctx, discovery.Peer{Token: jwt(`"exp":5000`)})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "too many clients") {
		t.Errorf("got %v", err)
	}
}
