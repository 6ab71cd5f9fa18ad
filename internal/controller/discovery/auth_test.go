package discovery

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestLongRefusals: why a stranger is refused may quote the stranger, and is logged.
func TestLongRefusals(t *testing.T) {
	s := New(Options{Authenticate: func(context.Context, Peer) (Grant, error) {
		return Grant{}, errors.New("for the audience " + strings.Repeat("x", maxHeader))
	}})
	_, err := s.authenticate(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer t")))
	if st := status.Convert(err); st.Code() != codes.Unauthenticated || len(st.Message()) > 1000 || !strings.HasPrefix(st.Message(), "for the audience") {
		t.Errorf("%s with %d bytes, want %s with the beginning of the reason", st.Code(), len(st.Message()), codes.Unauthenticated)
	}
}
