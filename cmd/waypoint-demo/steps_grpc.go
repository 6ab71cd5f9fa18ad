package main

import (
	"context"
	"fmt"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// call makes a unary call and returns the application that answered it.
func call(ctx context.Context, c *grpc.ClientConn, method string) (app string, err error) {
	message := []byte("some message")
	var answer []byte
	var trailer metadata.MD
	err = c.Invoke(ctx, method, &message, &answer, meshtest.Raw(), grpc.Trailer(&trailer))
	if names := trailer.Get("x-app"); len(names) > 0 {
		app = names[0]
	}
	return app, err
}

const grpcExpected = "the method shop.Checkout/Pay at checkout-v2, shop.Checkout/Add at checkout-v1"

func grpcRoute(ctx context.Context, w *world) (string, bool, error) {
	pay, err := call(ctx, w.clientGRPC, "/shop.Checkout/Pay")
	if err != nil {
		return "", false, err
	}
	add, err := call(ctx, w.clientGRPC, "/shop.Checkout/Add")
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("Pay at %s, Add at %s", pay, add), pay == "checkout-v2" && add == "checkout-v1", nil
}

const policyExpected = "403 for another identity and for another method, gRPC status 7; none of them at an application"

func policy(ctx context.Context, w *world) (string, bool, error) {
	before := w.arrived()
	other, err := send(ctx, w.strangerHTTP, http.MethodGet, "http://"+reviewsVIP+"/")
	if err != nil {
		return "", false, err
	}
	post, err := send(ctx, w.clientHTTP, http.MethodPost, "http://"+reviewsVIP+"/")
	if err != nil {
		return "", false, err
	}
	_, err = call(ctx, w.strangerGRPC, "/shop.Checkout/Pay")
	code := status.Code(err)
	arrived := w.arrived() - before
	seen := fmt.Sprintf("GET as stranger %d, POST as client %d, Pay as stranger status %d (%s); %d at an application",
		other.status, post.status, code, code, arrived)
	return seen, other.status == 403 && post.status == 403 && code == 7 && arrived == 0, nil
}

// arrived counts what the applications that have policies got.
func (w *world) arrived() (n int) {
	for _, app := range w.reviews {
		n += len(app.Requests())
	}
	for _, app := range w.checkout {
		n += len(app.Calls())
	}
	return n
}
