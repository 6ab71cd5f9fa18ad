// wds asks istiod what it tells a ztunnel, over delta ADS, and prints the differences, one JSON object a line:
//
//	{"name":"Kubernetes//Pod/shop/cart-1","address":{"workload":{...}}}
//	{"name":"shop/cart.shop.svc.cluster.local","removed":true}
//	{"synced":true}     what istiod knew when we asked has been printed
//
// A lost connection is made again, with the versions that are known, as a ztunnel does. It ends with its standard input.
// usage: wds ADDRESS, which is istiod's plain text port: what it says does not depend on who asks.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"istio.io/istio/pkg/workloadapi"
)

const addressType = "type.googleapis.com/istio.workload.Address"

func main() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	conn, err := grpc.NewClient("passthrough:///"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(200<<20)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	known := map[string]string{} // versions by name
	for {
		fmt.Fprintln(os.Stderr, "istiod:", follow(conn, known))
		time.Sleep(200 * time.Millisecond)
	}
}

func follow(conn *grpc.ClientConn, known map[string]string) error {
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(context.Background(), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	err = stream.Send(&discovery.DeltaDiscoveryRequest{
		Node:    &core.Node{Id: "ztunnel~10.244.0.1~ztunnel-test.istio-system~istio-system.svc.cluster.local"},
		TypeUrl: addressType, InitialResourceVersions: known,
	})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, r := range response.Resources {
			a := &workloadapi.Address{}
			if err := r.Resource.UnmarshalTo(a); err != nil {
				return err
			}
			text, err := protojson.Marshal(a)
			if err != nil {
				return err
			}
			known[r.Name] = r.Version
			out.Encode(map[string]any{"name": r.Name, "address": json.RawMessage(text)})
		}
		for _, name := range response.RemovedResources {
			delete(known, name)
			out.Encode(map[string]any{"name": name, "removed": true})
		}
		out.Encode(map[string]any{"synced": true})
		if err := stream.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: addressType, ResponseNonce: response.Nonce}); err != nil {
			return err
		}
	}
}
