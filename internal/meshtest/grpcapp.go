package meshtest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// GRPCApp is a gRPC server that has every method: it sends each message back as
// it comes, so all four kinds of call can be made of it, with [Raw] as the
// codec. It has the health service too. A call with the metadata
// "fail: CODE" gets that status.
type GRPCApp struct {
	*Listener
	Name   string
	Health *health.Server

	mu    sync.Mutex
	calls []Call
}

// Call is one call that a GRPCApp had.
type Call struct {
	Method   string // "/package.Service/Method"
	Metadata metadata.MD
	Peer     string
}

// GRPC starts a gRPC application.
func (m *Mesh) GRPC(name, addr string) *GRPCApp {
	m.t.Helper()
	app := &GRPCApp{Name: name, Health: health.NewServer()}
	grpcServer := grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{encoding.GetCodecV2(proto.Name)}),
		grpc.UnknownServiceHandler(app.echo),
	)
	grpc_health_v1.RegisterHealthServer(grpcServer, app.Health)
	app.Listener = m.bind(addr)
	m.tasks.Go(func() {
		grpcServer.Serve(app.Listener) //nolint:errcheck // it ends with the listener
		grpcServer.Stop()
	})
	return app
}

// Calls are those so far.
func (a *GRPCApp) Calls() []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

func (a *GRPCApp) echo(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(stream.Context())
	call := Call{Method: method, Metadata: md}
	if p, ok := peer.FromContext(stream.Context()); ok {
		call.Peer = p.Addr.String()
	}
	a.mu.Lock()
	a.calls = append(a.calls, call)
	a.mu.Unlock()
	stream.SetTrailer(metadata.Pairs("x-app", a.Name))
	for {
		var message []byte
		if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
			return failure(md)
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

// failure is the status that a call's metadata asks for.
func failure(md metadata.MD) error {
	asked := md.Get("fail")
	if len(asked) == 0 {
		return nil
	}
	var code codes.Code
	if err := code.UnmarshalJSON(fmt.Appendf(nil, "%q", strings.ToUpper(asked[0]))); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(code, "as asked")
}

// Raw is the codec of calls whose messages are bytes: pass *[]byte for each.
// Messages that are protobuf go through unharmed, so health checks work.
func Raw() grpc.CallOption { return grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2(proto.Name)}) }

type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if p, ok := v.(*[]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(*p)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if p, ok := v.(*[]byte); ok {
		*p = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}
