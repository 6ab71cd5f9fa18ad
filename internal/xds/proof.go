package xds

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/bearer"
)

// proof is what one stream shows of who we are: a token, a certificate, or
// nothing.
type proof struct {
	token bearer.Token     // without text: none
	cert  *tls.Certificate // nil: none
}

// proof returns what there is to show now.
func (s *Source) proof() (p proof, err error) {
	switch {
	case s.o.Token != "":
		if p.token, err = bearer.Read(s.o.Token); err != nil {
			err = fmt.Errorf("the token for the controller (--token): %w", err)
		}
	case s.o.Certificate != nil:
		if p.cert, err = s.o.Certificate(); err != nil {
			err = fmt.Errorf("the certificate to show to the controller, as there is no --token: %w", err)
		}
	}
	return p, err
}

// show adds a token to what a stream says. A certificate is shown in the
// handshake.
func (p proof) show(ctx context.Context) context.Context {
	if p.token.Text == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+p.token.Text)
}

// renewal is when a newer proof should be shown; zero: never.
func (p proof) renewal() time.Time {
	if p.cert != nil {
		return bearer.Renewal(p.cert.Leaf.NotBefore, p.cert.Leaf.NotAfter)
	}
	return p.token.Renewal()
}

// same reports whether two proofs are one.
func (p proof) same(other proof) bool {
	if p.cert != nil && other.cert != nil {
		return bytes.Equal(p.cert.Leaf.Raw, other.cert.Leaf.Raw)
	}
	return p.token.Text == other.token.Text && p.cert == other.cert
}

// errRenew ends a stream whose proof expires soon, while there is a newer one.
var errRenew = errors.New("the proof of who we are is renewed")

// lookAgain is how often a proof that expires is looked at for another one.
const lookAgain = 5 * time.Second

// renew ends a stream with errRenew when its proof comes to its end and there is a
// newer one. It returns when ctx ends.
func (s *Source) renew(ctx context.Context, end context.CancelCauseFunc, shown proof) {
	at := shown.renewal()
	if at.IsZero() {
		return
	}
	next := time.NewTimer(time.Until(at))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		// Should it be away for the moment, the stream lives on with the proof that
		// it began with.
		if now, err := s.proof(); err == nil && !now.same(shown) {
			end(errRenew)
			return
		}
		next.Reset(lookAgain)
	}
}

// turnedAway is why the controller does not believe who we are, with what we
// showed.
type turnedAway struct {
	reason *status.Status
	shown  string
	doubt  string // of ours; empty: none
}

// Error says both sides' view: ours tells what to do about what we showed, and the
// controller's why it does not do.
func (e *turnedAway) Error() string {
	text := "the controller does not accept " + e.shown
	if e.doubt != "" {
		text += " (" + e.doubt + ")"
	}
	return text + ": " + e.reason.Message()
}

// judged turns an error of a stream into a *turnedAway if it is about the proof.
func (s *Source) judged(err error, shown proof) error {
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.Unauthenticated {
		return err
	}
	e := &turnedAway{reason: st, shown: "us without a proof of who we are"}
	switch {
	case shown.cert != nil:
		e.shown = fmt.Sprintf("our certificate, which is good until %s", shown.cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case shown.token.Text != "":
		e.shown, e.doubt = "the token in "+s.o.Token, shown.token.Doubt("", time.Now())
	}
	return e
}
