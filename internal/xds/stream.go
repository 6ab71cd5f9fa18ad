package xds

import (
	"context"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/waypoint-mesh/waypoint/api"
)

// stream dials, and follows one stream until it ends. inStep is called once all
// types were answered and are in force.
func (s *Source) stream(ctx context.Context, inStep func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	shown, err := s.proof()
	if err != nil {
		return err
	}
	conn, err := s.dial(shown)
	if err != nil {
		return err
	}
	defer conn.Close()
	go s.renew(ctx, cancel, shown)
	err = s.converse(shown.show(ctx), conn, inStep)
	if cause := context.Cause(ctx); cause != nil { // we ended it ourselves
		return cause
	}
	return s.judged(err, shown)
}

// converse subscribes, and takes what comes, until the stream ends.
func (s *Source) converse(ctx context.Context, conn *grpc.ClientConn, inStep func()) error {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	f := &follower{Source: s, stream: stream, inStep: inStep, waiting: api.Types()}
	if err := f.subscribe(); err != nil {
		return err
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := f.take(r); err != nil {
			return err
		}
	}
}

// follower is a source with one stream.
type follower struct {
	*Source
	stream  discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	inStep  func()
	waiting []string // types that were not answered yet
	changes []change // of the push under way
}

// subscribe asks for everything, and says what of it we have. A failure to send
// shows only in what is received, so it is io.EOF here.
func (f *follower) subscribe() error {
	known := f.versions()
	node := &corev3.Node{
		Id:                   f.o.Instance,
		Cluster:              f.o.Gateway,
		UserAgentName:        "waypoint",
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: f.o.Version},
	}
	for _, typeURL := range api.Types() {
		err := f.stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL, InitialResourceVersions: known[typeURL]})
		if err != nil {
			_, err = f.stream.Recv()
			return err
		}
		node = nil // the first message is enough
	}
	return nil
}

// take handles a response. It is answered in the end: what was pushed together
// is in force when its last response is accepted.
func (f *follower) take(r *discoveryv3.DeltaDiscoveryResponse) error {
	var rejected []*errdetails.BadRequest_FieldViolation
	for _, name := range r.GetRemovedResources() {
		f.changes = append(f.changes, change{key: api.Key{Type: r.GetTypeUrl(), Name: name}, removed: true})
	}
	for _, resource := range r.GetResources() {
		c := f.read(r.GetTypeUrl(), resource.GetName(), resource.GetVersion(), resource.GetResource().GetValue())
		if c.fault != nil {
			rejected = append(rejected, &errdetails.BadRequest_FieldViolation{Field: resource.GetName(), Description: c.fault.Error()})
		}
		f.changes = append(f.changes, c)
	}
	f.waiting = slices.DeleteFunc(f.waiting, func(typeURL string) bool { return typeURL == r.GetTypeUrl() })
	if push, ok := api.ParsePush(r.GetSystemVersionInfo()); (!ok || push.Last()) && len(f.waiting) == 0 {
		f.apply()
	}
	return f.answer(r, rejected)
}

// apply brings the push into force.
func (f *follower) apply() {
	f.commit(f.changes)
	f.changes = nil
	if f.inStep != nil {
		f.connected()
		f.inStep()
		f.inStep = nil
	}
}

// maxRejected bounds how many resources are named in one answer.
const maxRejected = 100

// answer accepts a response, or refuses the resources of it that are wrong.
func (f *follower) answer(r *discoveryv3.DeltaDiscoveryResponse, rejected []*errdetails.BadRequest_FieldViolation) error {
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	if len(rejected) > 0 {
		answer.ErrorDetail = fault(rejected)
	}
	if err := f.stream.Send(answer); err != nil {
		_, err = f.stream.Recv()
		return err
	}
	return nil
}

// fault says what is wrong, for people and, in the details, for the controller.
func fault(rejected []*errdetails.BadRequest_FieldViolation) *rpcstatus.Status {
	message := fmt.Sprintf("%d resources refused: ", len(rejected))
	rejected = rejected[:min(len(rejected), maxRejected)]
	for i, r := range rejected {
		if i > 0 {
			message += "; "
		}
		message += r.GetDescription()
	}
	s := &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: message}
	// The only error would be of text that is not UTF-8, which protobuf has not
	// let in.
	if detail, err := anypb.New(&errdetails.BadRequest{FieldViolations: rejected}); err == nil {
		s.Details = []*anypb.Any{detail}
	}
	return s
}
