package discovery

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/waypoint-mesh/waypoint/api"
)

// client is one stream. One goroutine reads its requests, one sends pushes, and
// the one of the handler takes what was read, looks at the clock, and ends it all.
type client struct {
	Client
	server *Server
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	until  time.Time
	set    *set
	wake   chan struct{} // a push may be due; holds one
	late   *time.Timer   // runs while answers are due

	mu       sync.Mutex // guards all below; before the mu of the set
	types    map[string]*subscription
	had      int // bytes of the subscriptions, over the life of the stream
	nonces   uint64
	due      map[string]*discoveryv3.DeltaDiscoveryResponse // by nonce
	pushed   time.Time                                      // when those were
	rejected map[api.Key]Rejection
	refused  []Rejection // of those that were due
	pushes   uint64
	sent     uint64
}

func newClient(s *Server, stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, c Client, until time.Time) *client {
	return &client{
		Client: c, server: s, stream: stream, until: until,
		wake:     make(chan struct{}, 1),
		late:     stopped(),
		types:    make(map[string]*subscription),
		due:      make(map[string]*discoveryv3.DeltaDiscoveryResponse),
		rejected: make(map[api.Key]Rejection),
	}
}

// stopped is a timer that does not run yet.
func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// run serves the client until one side ends, the proof of who it is expires, or
// it does not answer.
func (c *client) run(first request, requests <-chan request) error {
	defer c.late.Stop()
	expired := stopped()
	if !c.until.IsZero() {
		expired.Reset(time.Until(c.until))
	}
	defer expired.Stop()
	sent := make(chan error, 1)
	go func() { sent <- c.send() }()
	for r := first; ; {
		if r.err != nil {
			return r.err
		}
		if err := c.take(r.DeltaDiscoveryRequest); err != nil {
			return err
		}
		select {
		case r = <-requests:
		case err := <-sent:
			return err
		case <-expired.C:
			return status.Error(codes.Unauthenticated, "the token or certificate shown has expired: connect anew")
		case <-c.late.C:
			return status.Errorf(codes.DeadlineExceeded, "a push was not answered within %v: connect anew", c.server.o.AnswerTimeout)
		case <-c.set.gone:
			return status.Errorf(codes.NotFound, "gateway %s is no more", c.Gateway)
		}
	}
}

// take handles one request: a subscription, or the answer to a response.
func (c *client) take(r *discoveryv3.DeltaDiscoveryRequest) error {
	if err := c.stays(r); err != nil {
		return err
	}
	if r.GetResponseNonce() == "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.subscribe(r)
	}
	if c.answered(r) {
		c.server.o.Rejected(c.Gateway)
	}
	return nil
}

// subscribe adds a type. One that we do not know is answered as an empty one, so
// that a waypoint that is newer than we are gets ready.
func (c *client) subscribe(r *discoveryv3.DeltaDiscoveryRequest) error {
	if names := r.GetResourceNamesSubscribe(); len(names) > 0 && !slices.Equal(names, []string{"*"}) || len(r.GetResourceNamesUnsubscribe()) > 0 {
		return status.Errorf(codes.InvalidArgument, "%s: resources cannot be asked for by name, only all of them", r.GetTypeUrl())
	}
	switch c.had += proto.Size(r); {
	case len(c.types) == maxTypes || len(r.GetTypeUrl()) > maxType:
		return status.Errorf(codes.InvalidArgument, "more than %d types, or the name of one is longer than %d bytes", maxTypes, maxType)
	case c.types[r.GetTypeUrl()] != nil:
		return status.Errorf(codes.InvalidArgument, "%s: subscribed to already", r.GetTypeUrl())
	case c.had > maxRequest:
		return status.Errorf(codes.ResourceExhausted, "the versions of what the client has are more than %d MiB: connect without", maxRequest>>20)
	}
	c.types[r.GetTypeUrl()] = &subscription{had: r.GetInitialResourceVersions()}
	c.wakeUp()
	return nil
}

// maxTypes and maxType, in bytes, bound what a client that makes up types can
// cost.
const maxTypes, maxType = 32, 256

// answered notes that a response was accepted, or which of its resources were
// not, and reports whether it is others that are refused now. An answer to nothing
// that is due is ignored.
func (c *client) answered(r *discoveryv3.DeltaDiscoveryRequest) (others bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	response := c.due[r.GetResponseNonce()]
	if response == nil {
		return false
	}
	delete(c.due, r.GetResponseNonce())
	before := len(c.rejected)
	for _, resource := range response.GetResources() {
		delete(c.rejected, api.Key{Type: response.GetTypeUrl(), Name: resource.GetName()})
	}
	for _, name := range response.GetRemovedResources() {
		delete(c.rejected, api.Key{Type: response.GetTypeUrl(), Name: name})
	}
	others = len(c.rejected) != before || r.GetErrorDetail() != nil
	for _, rejection := range rejections(response, r.GetErrorDetail()) {
		if len(c.rejected) < maxRejections {
			c.rejected[rejection.Key] = rejection
		}
		c.refused = append(c.refused, rejection)
	}
	if len(c.due) == 0 {
		c.late.Stop()
		c.server.o.Observer.Answered(c.Client, time.Since(c.pushed), c.refused)
		c.refused = nil
		c.wakeUp()
	}
	return others
}

// refusing reports whether there is something that the client refuses.
func (c *client) refusing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.rejected) > 0
}

// rejections reads which resources of a response were refused. A client that
// gives no details refuses the response as a whole.
func rejections(response *discoveryv3.DeltaDiscoveryResponse, fault *rpcstatus.Status) (list []Rejection) {
	if fault == nil {
		return nil
	}
	now := time.Now()
	versions := make(map[string]string)
	for _, r := range response.GetResources() {
		versions[r.GetName()] = r.GetVersion()
	}
	for _, violation := range violations(fault) {
		if version, ok := versions[violation.GetField()]; ok {
			list = append(list, Rejection{
				Key:     api.Key{Type: response.GetTypeUrl(), Name: violation.GetField()},
				Version: version, Reason: shortened(violation.GetDescription()), At: now,
			})
		}
	}
	if len(list) == 0 {
		list = append(list, Rejection{Key: api.Key{Type: response.GetTypeUrl()}, Reason: shortened(fault.GetMessage()), At: now})
	}
	return list
}

// violations are the details by which a client of ours says which resources it
// refuses, up to maxRejections.
func violations(fault *rpcstatus.Status) []*errdetails.BadRequest_FieldViolation {
	for _, detail := range fault.GetDetails() {
		var bad errdetails.BadRequest
		if detail.UnmarshalTo(&bad) == nil { // else not one of ours
			return bad.GetFieldViolations()[:min(len(bad.GetFieldViolations()), maxRejections)]
		}
	}
	return nil
}

// shortened is a reason without what is beyond maxReason.
func shortened(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "..."
}

func (c *client) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// send pushes what the client lacks, whenever there is something and nothing is
// under way, until the stream ends.
func (c *client) send() error {
	for {
		changed := c.set.watch() // before looking, so that nothing is missed
		responses := c.next()
		for _, response := range responses {
			if err := c.stream.Send(response); err != nil {
				return err
			}
		}
		if len(responses) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-c.wake:
		case <-c.stream.Context().Done():
			return context.Cause(c.stream.Context())
		}
	}
}

// next is the next push, nil if there is none for now.
func (c *client) next() []*discoveryv3.DeltaDiscoveryResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.due) > 0 || len(c.types) == 0 {
		return nil
	}
	responses := compose(c.set.collect(c, c.types))
	if len(responses) == 0 {
		return nil
	}
	p := Push{Responses: len(responses)}
	for _, r := range responses {
		c.nonces++
		r.Nonce = strconv.FormatUint(c.nonces, 10)
		c.due[r.Nonce] = r
		p.Resources += len(r.GetResources())
		p.Removed += len(r.GetRemovedResources())
	}
	c.pushes++
	c.sent += uint64(p.Resources)
	c.pushed = time.Now()
	c.late.Reset(c.server.o.AnswerTimeout)
	c.server.o.Observer.Pushed(c.Client, p)
	return responses
}

func (c *client) status() ClientStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ClientStatus{Client: c.Client, Pushes: c.pushes, Resources: c.sent}
	if len(c.due) > 0 {
		s.Waiting = c.pushed
	}
	for _, r := range c.rejected {
		s.Rejections = append(s.Rejections, r)
	}
	slices.SortFunc(s.Rejections, compareRejections)
	return s
}
