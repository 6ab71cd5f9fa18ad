package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// WorkloadOptions of a [WorkloadAPI].
type WorkloadOptions struct {
	Addr string // of the agent, as WorkloadAddr returns it
	// Identity is which one we take if there are several. Nobody: the first,
	// which is the agent's choice.
	Identity identity.ID
	Trust    identity.Trust
	Log      *slog.Logger
}

// WorkloadAPI is a certificate source that follows the SPIFFE Workload API of an
// agent on this machine, SPIRE's for one: the agent knows who we are, renews the
// certificate and says when the roots change. Without the agent what it last said
// stays in force.
//
// Of the roots only those of our own trust domain are used. A federated one would
// else be good for identities of ours too.
type WorkloadAPI struct {
	Current
	o    WorkloadOptions
	log  *slog.Logger
	last sum // of what is in force; owned by Run
}

// WorkloadAddr returns the address of a Workload API from what people write: the
// path of a socket, or an address as the SPIFFE Workload Endpoint specification,
// section 4, has it (unix:///PATH, tcp://IP:PORT).
func WorkloadAddr(text string) (string, error) {
	addr := text
	if strings.HasPrefix(addr, "/") {
		addr = "unix://" + addr
	}
	if err := workloadapi.ValidateAddress(addr); err != nil {
		return "", fmt.Errorf("%q is no path of a socket, and no unix:///PATH or tcp://IP:PORT: %w", text, err)
	}
	return addr, nil
}

// NewWorkloadAPI makes a source that has nothing until Run is called.
func NewWorkloadAPI(o WorkloadOptions) *WorkloadAPI {
	s := &WorkloadAPI{o: o, log: o.Log.With("workload api", o.Addr)}
	s.problem = errors.New("the Workload API at " + o.Addr + " has not been asked yet")
	return s
}

// longestSilence bounds the time between two tries to connect. An agent on the
// same machine is not overrun.
const longestSilence = 5 * time.Second

// Run follows the API until ctx ends. The error is of the address.
func (s *WorkloadAPI) Run(ctx context.Context) error {
	connect := grpcbackoff.DefaultConfig
	connect.MaxDelay = longestSilence
	client, err := workloadapi.New(ctx, workloadapi.WithAddr(s.o.Addr), workloadapi.WithBackoffStrategy(agentPauses{}),
		workloadapi.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{Backoff: connect})))
	if err != nil {
		return fmt.Errorf("the Workload API: %w", err)
	}
	// The library gives up for good what the agent calls invalid. There may be
	// another agent one day.
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, client.WatchX509Context(ctx, watcher{s, ctx})
	}, backoff.WithBackOff(newAgentPauses()), backoff.WithMaxElapsedTime(0))
	return client.Close()
}

func newAgentPauses() *backoff.ExponentialBackOff {
	pauses := newPauses()
	pauses.MaxInterval = longestSilence
	return pauses
}

// agentPauses are our pauses in the library's words.
type agentPauses struct{}

type agentPause struct{ *backoff.ExponentialBackOff }

func (agentPauses) NewBackoff() workloadapi.Backoff { return agentPause{newAgentPauses()} }
func (p agentPause) Next() time.Duration            { return p.NextBackOff() }

// watcher is who the library tells. Its sources tell less: nothing of failures.
type watcher struct {
	s   *WorkloadAPI
	ctx context.Context
}

func (w watcher) OnX509ContextUpdate(update *workloadapi.X509Context) {
	if err := w.s.update(update); err != nil {
		w.report(err)
	}
}

func (w watcher) OnX509ContextWatchError(err error) {
	if w.ctx.Err() == nil {
		w.report(errors.New(explainAgent(err)))
	}
}

func (w watcher) report(err error) {
	w.s.log.Log(w.ctx, w.s.failed(err), "the Workload API gave us nothing that we can use: what is in force stays so", "reason", err)
}

// update puts in force what the agent says.
func (s *WorkloadAPI) update(update *workloadapi.X509Context) error {
	svid, err := s.pick(update.SVIDs)
	if err != nil {
		return err
	}
	bundle, err := update.Bundles.GetX509BundleForTrustDomain(svid.ID.TrustDomain())
	if err != nil {
		return err
	}
	cert, roots := &tls.Certificate{PrivateKey: svid.PrivateKey, Leaf: svid.Certificates[0]}, bundle.X509Authorities()
	for _, c := range svid.Certificates {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	if err := Check(cert, roots); err != nil {
		return err
	}
	if now := sumOfPair(cert, roots); now != s.last { // else the agent has restarted
		s.last = now
		s.Store(cert, roots)
		s.announce(s.log)
	}
	s.settled()
	return nil
}

// pick chooses who we are among who we may be.
func (s *WorkloadAPI) pick(svids []*x509svid.SVID) (*x509svid.SVID, error) {
	var offered []string
	for _, svid := range svids {
		if s.o.Identity.IsZero() || svid.ID.String() == s.o.Identity.String() {
			return s.ofOurMesh(svid)
		}
		offered = append(offered, svid.ID.String())
	}
	return nil, fmt.Errorf("the agent has no identity %s for this process (no entry registered for it?): it offers %s", s.o.Identity, strings.Join(offered, ", "))
}

// ofOurMesh refuses an identity that no peer would take, and with which we would
// take none.
func (s *WorkloadAPI) ofOurMesh(svid *x509svid.SVID) (*x509svid.SVID, error) {
	id, err := identity.FromCertificate(svid.Certificates[0])
	if err != nil {
		return nil, err
	}
	if !s.o.Trust.Has(id.TrustDomain) {
		return nil, fmt.Errorf("the agent says that we are %s, of another trust domain than the mesh, which is %q with the aliases %q", id, s.o.Trust.Domain, s.o.Trust.Aliases)
	}
	return svid, nil
}

func sumOfPair(cert *tls.Certificate, roots []*x509.Certificate) sum {
	contents := slices.Clone(cert.Certificate)
	for _, root := range roots {
		contents = append(contents, root.Raw)
	}
	return sumOf(contents...)
}

// explainAgent says why the agent tells us nothing, likely cause first.
func explainAgent(err error) string {
	if errors.Is(err, io.EOF) {
		return "the agent has ended the stream"
	}
	st, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	switch st.Code() {
	case codes.PermissionDenied:
		return "the agent has no identity for this process (no entry registered for it?): " + st.Message()
	case codes.Unavailable:
		return "the agent cannot be reached (does it run, and is its socket mounted?): " + st.Message()
	case codes.Unimplemented:
		return "what answers there is not the Workload API: " + st.Message()
	}
	return fmt.Sprintf("the agent failed with %s: %s", st.Code(), st.Message())
}
