package gatewayapi

import (
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// Ports of the suite's applications, in pods.
const (
	httpPort = 8080
	grpcPort = 7070
)

// echo answers as the suite's application does, with what reached it.
func echo(x *meshtest.Exchange) {
	lines := []string{"StatusCode=200", "Host=" + x.Host, "URL=" + x.Target, "Method=" + x.Method, "Proto=" + x.Proto}
	for _, f := range x.Header {
		lines = append(lines, "RequestHeader="+f.Name+":"+f.Value)
	}
	x.Reply(200, strings.Join(append(lines, "Hostname="+x.App), "\n"))
}

// serveGRPC answers every method with a text in field 1 of a message.
func (c *cluster) serveGRPC(name, addr string) {
	c.t.Helper()
	listener, err := net.Listen("tcp", addr)
	c.must(err)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		return stream.SendMsg(wrapperspb.String(fmt.Sprintf("StatusCode=200\nHostname=%s\n", name)))
	}))
	c.t.Cleanup(server.Stop)
	go func() {
		if err := server.Serve(listener); err != nil {
			c.t.Errorf("gRPC application %s: %v", name, err)
		}
	}()
}
