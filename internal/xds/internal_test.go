package xds

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/waypoint-mesh/waypoint/api"
	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

func testState() *waypointv1.SavedConfiguration {
	return &waypointv1.SavedConfiguration{Gateway: "shop/waypoint", Resources: []*waypointv1.SavedResource{
		{TypeUrl: api.GatewayType, Name: "shop/waypoint", Version: "01", Value: []byte("x")},
	}}
}

func TestStateIsWhatWasSaved(t *testing.T) {
	content, err := encodeState(testState())
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeState(content)
	if err != nil || !proto.Equal(got, testState()) {
		t.Errorf("%v, %v", got, err)
	}
	for i := range content {
		bad := bytes.Clone(content)
		bad[i] ^= 0x10
		if _, err := decodeState(bad); !errors.Is(err, errBadState) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := decodeState(content[:i]); !errors.Is(err, errBadState) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	content, err := encodeState(testState())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(stateFormat))
	f.Fuzz(func(t *testing.T, content []byte) {
		saved, err := decodeState(content)
		if err != nil {
			if !errors.Is(err, errBadState) {
				t.Errorf("%v", err)
			}
			return
		}
		// Whatever is in it, it does not stop us.
		s := New(Options{Gateway: "shop/waypoint"}, new(mesh.Store))
		s.commit(s.restored(saved))
	})
}

// FuzzResource takes whatever a controller may send.
func FuzzResource(f *testing.F) {
	for i, typeURL := range api.Types() {
		f.Add(i, "shop/waypoint", []byte{})
		f.Add(i, typeURL, []byte("\n\x04shop\x12\x08waypoint"))
	}
	f.Fuzz(func(t *testing.T, i int, name string, value []byte) {
		types := append(api.Types(), "unknown")
		s := New(Options{Gateway: "shop/waypoint"}, new(mesh.Store))
		c := s.read(types[uint(i)%uint(len(types))], name, "1", value)
		if c.fault == nil && c.part == nil {
			t.Error("neither a part nor a fault")
		}
		s.commit([]change{c})
		s.commit([]change{{key: c.key, removed: true}})
		if len(s.held) > 0 {
			t.Errorf("left over: %v", s.held)
		}
	})
}

// TestUnreadable: what cannot be decoded fails closed as far as its name tells.
func TestUnreadable(t *testing.T) {
	s := New(Options{Gateway: "shop/waypoint"}, new(mesh.Store))
	for _, test := range []struct {
		typeURL, name string
		value         []byte
		part          bool
		fault         string
	}{
		{api.AuthorizationPolicyType, "shop/p", []byte{0xff}, true, "cannot be decoded"},
		{api.AuthorizationPolicyType, "p", []byte{0xff}, false, "cannot be decoded"},
		{api.RouteType, "HTTPRoute/shop/r", []byte{0xff}, false, "cannot be decoded"},
		{api.RouteType, "HTTPRoute/shop/r", nil, false, "calls itself"},
		{api.GatewayType, "bank/waypoint", []byte("\n\x04bank\x12\x08waypoint"), false, "we are the waypoint of shop/waypoint"},
		{"type.googleapis.com/other", "x", nil, false, "not a type that was asked for"},
	} {
		c := s.read(test.typeURL, test.name, "1", test.value)
		if (c.part != nil) != test.part || c.fault == nil || !strings.Contains(c.fault.Error(), test.fault) || !strings.Contains(c.fault.Error(), test.name) {
			t.Errorf("%s %s: part %v, fault %v", test.typeURL, test.name, c.part, c.fault)
		}
	}
	c := s.read(api.AuthorizationPolicyType, "shop/p", "1", []byte{0xff})
	spec, ok := c.part.(*mesh.PolicySpec)
	if !ok || spec.Policy.Invalid == "" || len(spec.Targets) != 1 || spec.Targets[0].Namespace != "shop" {
		t.Errorf("the policy stands for %+v", c.part)
	}
}

func TestExplain(t *testing.T) {
	for want, err := range map[string]error{
		"--xds-root":             status.Error(codes.Unavailable, "x509: certificate signed by unknown authority"),
		"cannot be reached":      status.Error(codes.Unavailable, "connection refused"),
		"no controller of ours":  status.Error(codes.Unimplemented, "unknown service"),
		"cannot serve us":        status.Error(codes.FailedPrecondition, "no"),
		"refuses us":             status.Error(codes.PermissionDenied, "no"),
		"ended with Internal: x": status.Error(codes.Internal, "x"),
		"plain":                  errors.New("plain"),
	} {
		if got := explain(err); !strings.Contains(got, want) {
			t.Errorf("%v is explained as %q, want %q in it", err, got, want)
		}
	}
}

// TestLastChangeIsSaved although ctx ended right after it.
func TestLastChangeIsSaved(t *testing.T) {
	dir := t.TempDir()
	s := New(Options{Gateway: "shop/waypoint", StateDir: dir}, new(mesh.Store))
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.saver.changed()
	s.saver.run(ctx)
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	saved, err := decodeState(content)
	if err != nil || time.Since(saved.GetSaved().AsTime()) > time.Minute {
		t.Errorf("%v, %v", saved, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// answers is a stream that keeps what is sent.
type answers struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	sent []*discoveryv3.DeltaDiscoveryRequest
}

func (a *answers) Send(r *discoveryv3.DeltaDiscoveryRequest) error {
	a.sent = append(a.sent, r)
	return nil
}

func response(t *testing.T, push string, messages ...proto.Message) *discoveryv3.DeltaDiscoveryResponse {
	t.Helper()
	r := &discoveryv3.DeltaDiscoveryResponse{SystemVersionInfo: push, Nonce: push}
	for _, m := range messages {
		resource := api.Of(m)
		value, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r.TypeUrl = resource.Type
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: resource.Name, Version: push, Resource: &anypb.Any{Value: value}})
	}
	return r
}

// TestPushComesIntoForceAsOne: not before its last response, and on a new stream
// not before all types were answered. What stands alone counts at once.
func TestPushComesIntoForceAsOne(t *testing.T) {
	var store mesh.Store
	s := New(Options{Gateway: "shop/waypoint"}, &store)
	stream := &answers{}
	inStep := 0
	f := &follower{Source: s, stream: stream, inStep: func() { inStep++ }, waiting: api.Types()}
	policyOf := func(name string) proto.Message {
		return &waypointv1.AuthorizationPolicy{Namespace: "shop", Name: name, Rejected: "by its test"}
	}
	routes := response(t, "1 3/4")
	routes.TypeUrl = api.RouteType
	addresses := response(t, "1 2/4")
	addresses.TypeUrl = api.AddressType
	for _, step := range []struct {
		response *discoveryv3.DeltaDiscoveryResponse
		version  uint64 // of the snapshot afterwards
		rejected int
	}{
		{response(t, "1 1/4", &waypointv1.Gateway{Namespace: "shop", Name: "waypoint"}), 0, 0},
		{addresses, 0, 0},
		{routes, 0, 0},
		{response(t, "1 4/4", policyOf("a")), 1, 1},
		{response(t, "2 1/2", policyOf("b")), 1, 1},
		{response(t, "2 2/2", policyOf("c")), 2, 3},
		{response(t, "anything", policyOf("d")), 3, 4},
	} {
		if err := f.take(step.response); err != nil {
			t.Fatal(err)
		}
		snap := store.Load()
		if snap.Version != step.version || len(snap.Rejected) != step.rejected {
			t.Errorf("after %s: version %d, rejected %v", step.response.GetNonce(), snap.Version, snap.Rejected)
		}
		if last := stream.sent[len(stream.sent)-1]; last.GetResponseNonce() != step.response.GetNonce() || last.GetErrorDetail() != nil {
			t.Errorf("after %s: the answer is %v", step.response.GetNonce(), last)
		}
	}
	if inStep != 1 || !s.isWhole() {
		t.Errorf("in step %d times, whole %v", inStep, s.isWhole())
	}
}

// TestSavedSoonAndNotAllTheTime: of changes that stop, the last is saved within a
// moment, so that a crash loses none; of changes that do not stop, few are.
func TestSavedSoonAndNotAllTheTime(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, stateFile)
	isSaved := func() bool {
		synctest.Wait()
		return os.Remove(path) == nil
	}
	pass := func(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the clock is that of synctest
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Gateway: "shop/waypoint", StateDir: dir}, new(mesh.Store))
		if err := s.Load(); err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { s.saver.run(t.Context()) })
		for _, after := range []time.Duration{0, saveSoon / 2, saveSoon} {
			s.saver.changed()
			pass(after)
			if saved := isSaved(); saved != (after != saveSoon/2) {
				t.Errorf("%v after a change: saved %v", after, saved)
			}
		}
		n := 0
		for range 600 {
			s.saver.changed()
			pass(100 * time.Millisecond)
			if isSaved() {
				n++
			}
		}
		if n < 12 || n > 20 {
			t.Errorf("saved %d times in a minute of changes, want every 5 s, and a few times at the beginning", n)
		}
		pass(2 * saveSeldom)
		s.saver.changed()
		if !isSaved() {
			t.Error("after some quiet, a change is not saved at once")
		}
	})
}
