package certs

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/api/istio/ca"
	"github.com/waypoint-mesh/waypoint/internal/bearer"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// request has the CA certify a new key, and returns the certificate with the
// roots that the answer names.
func (s *IstioCA) request(ctx context.Context, t bearer.Token, id identity.ID) (*tls.Certificate, []*x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("a new key: %w", err)
	}
	csr, err := certificateRequest(key, id)
	if err != nil {
		return nil, nil, err
	}
	chain, err := s.call(ctx, t, &ca.IstioCertificateRequest{Csr: string(csr), ValidityDuration: int64(s.o.TTL / time.Second)})
	if err != nil {
		return nil, nil, errors.New(s.explain(err, t))
	}
	cert, roots, err := parseAnswer(chain, key)
	if err != nil {
		return nil, nil, fmt.Errorf("the CA's answer: %w", err)
	}
	return cert, roots, nil
}

// certificateRequest is a PKCS #10 request in PEM with an empty subject, which a
// CA might otherwise copy, and id as its only name.
func certificateRequest(key *ecdsa.PrivateKey, id identity.ID) ([]byte, error) {
	uri, err := checkedURI(id)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{uri}}, key)
	if err != nil {
		return nil, fmt.Errorf("certificate request for %s: %w", id, err)
	}
	return encode("CERTIFICATE REQUEST", der), nil
}

// call makes one connection for one call: hours lie between two, and the roots
// may be others by then.
func (s *IstioCA) call(ctx context.Context, t bearer.Token, request *ca.IstioCertificateRequest) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	roots := x509.NewCertPool()
	for _, root := range s.bundle {
		roots.AddCert(root)
	}
	conn, err := grpc.NewClient(s.o.Addr,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots})),
		grpc.WithDisableServiceConfig()) // which is looked for in DNS
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+t.Text)
	if s.o.Cluster != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "clusterid", s.o.Cluster)
	}
	answer, err := ca.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, request)
	return answer.GetCertChain(), err
}

// parseAnswer reads what a CA answers: certificates in PEM, the one for key first,
// then its intermediates, and in the last element the roots.
func parseAnswer(chain []string, key *ecdsa.PrivateKey) (*tls.Certificate, []*x509.Certificate, error) {
	if len(chain) < 2 {
		return nil, nil, fmt.Errorf("a chain of %d, expected the certificate, its intermediates if any, and the roots", len(chain))
	}
	last := len(chain) - 1
	roots, err := ParseCertificates([]byte(chain[last]))
	if err != nil {
		return nil, nil, fmt.Errorf("roots: %w", err)
	}
	ours, err := ParseCertificates([]byte(strings.Join(chain[:last], "\n")))
	if err != nil {
		return nil, nil, fmt.Errorf("certificate: %w", err)
	}
	if !key.PublicKey.Equal(ours[0].PublicKey) {
		return nil, nil, errors.New("the certificate is for another key than ours")
	}
	cert := &tls.Certificate{PrivateKey: key, Leaf: ours[0]}
	for _, c := range ours {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, roots, nil
}

// caAudience is whom a token has to be for that istiod takes.
const caAudience = "istio-ca"

// explain says why there was no answer, likely cause first.
func (s *IstioCA) explain(err error, t bearer.Token) string {
	st, ok := status.FromError(err)
	if !ok {
		return fmt.Sprintf("the CA at %s cannot be asked: %v", s.o.Addr, err)
	}
	switch st.Code() {
	case codes.Unauthenticated:
		doubt := cmp.Or(t.Doubt(caAudience, time.Now()), "another cluster issued it?")
		return fmt.Sprintf("the CA does not accept the token in %s (%s): %s", s.o.Token, doubt, st.Message())
	case codes.PermissionDenied:
		return "the CA refuses to certify us: " + st.Message()
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return fmt.Sprintf("the CA does not sign what we ask for (a lifetime of %s above its maximum?): %s", s.o.TTL, st.Message())
	case codes.Unimplemented:
		return fmt.Sprintf("what answers at %s is not Istio's CA, which istiod has at port 15012: %s", s.o.Addr, st.Message())
	case codes.DeadlineExceeded:
		return fmt.Sprintf("the CA at %s did not answer within %s: %s", s.o.Addr, s.o.Timeout, st.Message())
	case codes.Unavailable:
		// grpc keeps nothing of the cause but its text.
		if strings.Contains(st.Message(), "x509: ") {
			return fmt.Sprintf("the server at %s does not prove to be the CA (another mesh's, or one that %s does not know?): %s", s.o.Addr, s.o.Root, st.Message())
		}
		return fmt.Sprintf("the CA at %s cannot be reached: %s", s.o.Addr, st.Message())
	}
	return fmt.Sprintf("the CA failed with %s: %s", st.Code(), st.Message())
}
