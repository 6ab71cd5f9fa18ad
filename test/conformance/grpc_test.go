package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// message is what all calls here are made of.
type message = wrapperspb.BytesValue

// kinds is a gRPC service with a method of each kind.
var kinds = grpc.ServiceDesc{
	ServiceName: "conformance.Kinds",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}},
	Streams: []grpc.StreamDesc{
		{StreamName: "ServerStream", Handler: serverStream, ServerStreams: true},
		{StreamName: "ClientStream", Handler: clientStream, ClientStreams: true},
		{StreamName: "Bidi", Handler: bidi, ServerStreams: true, ClientStreams: true},
	},
}

// unary is what grpc calls a method by. It sends the message back, with trailers; it fails for the message "fail",
// and for "wait" it waits.
func unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc chose the order
	in := new(message)
	if err := decode(in); err != nil {
		return nil, err
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "last", "x-binary-bin", "\x00\xff")); err != nil {
		return nil, err
	}
	switch string(in.GetValue()) {
	case "fail":
		return nil, status.Error(codes.FailedPrecondition, "100 % as asked: ä")
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return in, nil
}

const replies = 1000

func serverStream(_ any, s grpc.ServerStream) error {
	in := new(message)
	if err := s.RecvMsg(in); err != nil {
		return err
	}
	for range replies {
		if err := s.SendMsg(in); err != nil {
			return err
		}
	}
	return nil
}

// clientStream answers with how many bytes came.
func clientStream(_ any, s grpc.ServerStream) error {
	sum := 0
	for {
		in := new(message)
		err := s.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			return s.SendMsg(wrapperspb.Bytes(fmt.Append(nil, sum)))
		}
		if err != nil {
			return err
		}
		sum += len(in.GetValue())
	}
}

func bidi(_ any, s grpc.ServerStream) error {
	for {
		in := new(message)
		err := s.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.SendMsg(in); err != nil {
			return err
		}
	}
}

// callable is a connection of grpc-go through tunnel and waypoint.
type callable struct {
	*testing.T
	*grpc.ClientConn
	ctx context.Context
}

func TestGRPC(t *testing.T) {
	m := newMesh(t, gateway+service("kinds", 21, 8080, "grpc"))
	listener, err := net.Listen("tcp", m.Addr(21, 8080))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&kinds, nil)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	m.node("kinds", 21)
	conn, err := grpc.NewClient(m.tunnel(101, 8080, vip(21, 8080)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for name, run := range map[string]func(callable){
		"unary": callable.unary, "unary, compressed": callable.compressed, "a status": callable.status, "a deadline": callable.deadline,
		"server stream": callable.serverStream, "client stream": callable.clientStream, "both": callable.bidi, "in parallel": callable.parallel,
		"unknown method": callable.unknown,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			run(callable{t, conn, ctx})
		})
	}
}

func (c callable) call(text []byte, options ...grpc.CallOption) ([]byte, error) {
	out := new(message)
	err := c.Invoke(c.ctx, "/conformance.Kinds/Unary", wrapperspb.Bytes(text), out, options...)
	return out.GetValue(), err
}

func (c callable) unary() {
	var trailer metadata.MD
	got, err := c.call([]byte("hello"), grpc.Trailer(&trailer))
	if string(got) != "hello" || err != nil {
		c.Errorf("%q, %v", got, err)
	}
	if v := trailer.Get("x-trailer"); len(v) != 1 || v[0] != "last" {
		c.Errorf("trailer %v", trailer)
	}
	if v := trailer.Get("x-binary-bin"); len(v) != 1 || v[0] != "\x00\xff" {
		c.Errorf("binary trailer %q", v)
	}
}

func (c callable) compressed() {
	big := bytes.Repeat([]byte("much of the same "), 200_000)
	got, err := c.call(big, grpc.UseCompressor(gzip.Name))
	if !bytes.Equal(got, big) || err != nil {
		c.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err = c.call(big); !bytes.Equal(got, big) || err != nil {
		c.Errorf("uncompressed: %d bytes, %v", len(got), err)
	}
}

func (c callable) status() {
	_, err := c.call([]byte("fail"))
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != "100 % as asked: ä" {
		c.Error(err)
	}
}

func (c callable) deadline() {
	short, cancel := context.WithTimeout(c.ctx, 100*time.Millisecond)
	defer cancel()
	c.ctx = short
	if _, err := c.call([]byte("wait")); status.Code(err) != codes.DeadlineExceeded {
		c.Error(err)
	}
}

func (c callable) unknown() {
	err := c.Invoke(c.ctx, "/conformance.Kinds/Nonesuch", new(message), new(message))
	if status.Code(err) != codes.Unimplemented {
		c.Error(err)
	}
}

// stream opens a stream by the name of its method.
func (c callable) stream(name string) grpc.ClientStream {
	for i := range kinds.Streams {
		if desc := &kinds.Streams[i]; desc.StreamName == name {
			s, err := c.NewStream(c.ctx, desc, "/conformance.Kinds/"+name)
			if err != nil {
				c.Fatal(err)
			}
			return s
		}
	}
	c.Fatalf("no method %s", name)
	return nil
}

func (c callable) serverStream() {
	s := c.stream("ServerStream")
	if err := errors.Join(s.SendMsg(wrapperspb.Bytes(make([]byte, 10_000))), s.CloseSend()); err != nil {
		c.Fatal(err)
	}
	for n := 0; ; n++ {
		err := s.RecvMsg(new(message))
		if err == nil {
			continue
		}
		if n != replies || !errors.Is(err, io.EOF) {
			c.Errorf("after %d messages: %v", n, err)
		}
		return
	}
}

func (c callable) clientStream() {
	s := c.stream("ClientStream")
	for range replies {
		if err := s.SendMsg(wrapperspb.Bytes(make([]byte, 10_000))); err != nil {
			c.Fatal(err)
		}
	}
	out := new(message)
	if err := errors.Join(s.CloseSend(), s.RecvMsg(out)); err != nil || string(out.GetValue()) != fmt.Sprint(replies*10_000) {
		c.Errorf("%s, %v", out.GetValue(), err)
	}
}

// bidi goes back and forth, so that each message has to get through at once.
func (c callable) bidi() {
	s := c.stream("Bidi")
	for i := range replies {
		out := new(message)
		if err := errors.Join(s.SendMsg(wrapperspb.Bytes(fmt.Append(nil, i))), s.RecvMsg(out)); err != nil || string(out.GetValue()) != fmt.Sprint(i) {
			c.Fatalf("message %d: %q, %v", i, out.GetValue(), err)
		}
	}
	if err := errors.Join(s.CloseSend(), expectEOF(s)); err != nil {
		c.Error(err)
	}
}

func expectEOF(s grpc.ClientStream) error {
	if err := s.RecvMsg(new(message)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("expected the end, got %w", err)
	}
	return nil
}

func (c callable) parallel() {
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			for range 20 {
				text := bytes.Repeat(fmt.Appendf(nil, "caller %d ", i), 100)
				if got, err := c.call(text); !bytes.Equal(got, text) || err != nil {
					c.Errorf("%.20q, %v", got, err)
					return
				}
			}
		})
	}
	all.Wait()
}
