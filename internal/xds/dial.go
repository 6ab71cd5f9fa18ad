package xds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	connectTimeout = 10 * time.Second
	// A controller that is gone without a word is found after both.
	pingAfter, pingTimeout = 30 * time.Second, 10 * time.Second
	// maxResponse is far above what our controller sends at once, and what
	// ztunnel takes from others.
	maxResponse = 200 << 20
	window      = 1 << 20
)

// dial makes a connection for one try. Each gets its own, since the roots may
// have changed, and since the pauses between tries are ours.
func (s *Source) dial() (*grpc.ClientConn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if s.o.Root != "" {
		pem, err := os.ReadFile(s.o.Root)
		if err != nil {
			return nil, fmt.Errorf("the controller's CA (--xds-root): %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the controller's CA (--xds-root): %s holds no certificate in PEM", s.o.Root)
		}
	}
	if s.o.Token == "" && s.o.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.o.Certificate() }
	}
	return grpc.NewClient(s.o.Addr,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)),
		// Of several replicas behind a name, any.
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}`),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
	)
}

// errRenew ends a stream whose token expires soon, while there is a newer one.
var errRenew = errors.New("the token is renewed")

// lookAgain is how often the file of a token that expires is looked at for
// another one.
const lookAgain = 5 * time.Second

// withToken adds the token, as the file has it now, to what a stream says, and
// ends the stream with errRenew when there is a newer one for it.
func (s *Source) withToken(ctx context.Context, cancel context.CancelCauseFunc) (context.Context, error) {
	if s.o.Token == "" {
		return ctx, nil
	}
	t, err := readToken(s.o.Token)
	if err != nil {
		return ctx, err
	}
	if at := t.renewal(); !at.IsZero() {
		go s.renew(ctx, cancel, t, at)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+t.text), nil
}

func (s *Source) renew(ctx context.Context, cancel context.CancelCauseFunc, used token, at time.Time) {
	next := time.NewTimer(time.Until(at))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		// Should the file be away for the moment, the stream lives on with the
		// token that it began with.
		if now, err := readToken(s.o.Token); err == nil && now.text != used.text {
			cancel(errRenew)
			return
		}
		next.Reset(lookAgain)
	}
}

// explain says why there is no stream, likely cause first.
func explain(err error) string {
	st, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	switch st.Code() {
	case codes.Unauthenticated:
		return "the controller does not accept our proof of who we are: " + st.Message()
	case codes.PermissionDenied:
		return "the controller refuses us: " + st.Message()
	case codes.Unimplemented:
		return "what answers there is no controller of ours: " + st.Message()
	case codes.Unavailable:
		if strings.Contains(st.Message(), "x509:") { // gRPC keeps no more of the error than its text
			return "the controller's certificate is not trusted: --xds-root has to hold its CA, and the certificate to name the host of --xds: " + st.Message()
		}
		return "the controller cannot be reached: " + st.Message()
	}
	return fmt.Sprintf("the stream ended with %s: %s", st.Code(), st.Message())
}
