package xds

import (
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
func (s *Source) dial(shown proof) (*grpc.ClientConn, error) {
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
	if shown.cert != nil {
		// Whatever the controller says which roots it knows: a certificate that is of
		// another mesh is to be refused with a reason.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown.cert, nil }
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

// explain says why there is no stream, likely cause first.
func explain(err error) string {
	st, ok := status.FromError(err)
	if _, judged := errors.AsType[*turnedAway](err); judged || !ok {
		return err.Error()
	}
	switch st.Code() {
	case codes.PermissionDenied:
		return "the controller refuses us: " + st.Message()
	case codes.FailedPrecondition:
		return "the controller cannot serve us for now: " + st.Message()
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
