package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// load sends requests from several clients until it is told to stop.
type load struct {
	workers      sync.WaitGroup
	stopped      atomic.Bool
	sent, failed atomic.Int64
}

func (w *world) startLoad(ctx context.Context, workers int) *load {
	l := new(load)
	for range workers {
		l.workers.Go(func() {
			for !l.stopped.Load() {
				got, err := send(ctx, w.clientHTTP, http.MethodGet, "http://"+reviewsVIP+"/")
				l.sent.Add(1)
				if err != nil || !got.ok() {
					l.failed.Add(1)
				}
			}
		})
	}
	return l
}

func (l *load) stop() {
	l.stopped.Store(true)
	l.workers.Wait()
}

const (
	rotationLoad = time.Second // how long requests are sent around the rotation

	rotationExpected = "new tunnels get the new certificate, open ones go on; no request of 4 clients fails"
)

// rotate replaces the waypoint's certificate while requests pass through it.
func rotate(ctx context.Context, w *world) (string, bool, error) {
	before, err := w.serial(ctx)
	if err != nil {
		return "", false, err
	}
	end := time.After(rotationLoad)
	l := w.startLoad(ctx, 4)
	defer l.stop()
	start := time.Now()
	w.mesh.WriteCertificate(w.certs, waypointID)
	for now := before; now == before; {
		if now, err = w.serial(ctx); err != nil {
			return "", false, err
		}
	}
	took := time.Since(start)
	select {
	case <-end:
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
	l.stop()
	seen := fmt.Sprintf("the new certificate after %s; %d of %d requests failed", millis(took), l.failed.Load(), l.sent.Load())
	return seen, l.failed.Load() == 0, nil
}

// serial is that of the certificate which the waypoint shows to a new tunnel.
func (w *world) serial(ctx context.Context) (string, error) {
	dialer := tls.Dialer{Config: &tls.Config{
		Certificates:       []tls.Certificate{*w.client.Cert},
		NextProtos:         []string{"h2"},
		InsecureSkipVerify: true, //nolint:gosec // only to look at the certificate
		MinVersion:         tls.VersionTLS13,
	}}
	conn, err := dialer.DialContext(ctx, "tcp", hboneAddr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

const drainExpected = "after SIGTERM: not ready, the request under way is answered 200, GOAWAY, exit code 0"

// drain ends the waypoint while an application takes its time over a request.
func drain(ctx context.Context, w *world) (string, bool, error) {
	slow, err := w.startSlowRequest(ctx)
	if err != nil {
		return "", false, err
	}
	defer slow.release()
	idle, err := w.client.Tunnel(ctx, hboneAddr) // to see the GOAWAY
	if err != nil {
		return "", false, err
	}
	start := time.Now()
	if err := w.waypoint.terminate(); err != nil {
		return "", false, err
	}
	ready := w.untilNotReady(ctx)
	slow.release()
	got, err := slow.answer(ctx)
	if err != nil {
		return "", false, fmt.Errorf("the request under way: %w", err)
	}
	code, err := w.waypoint.wait(ctx)
	if err != nil {
		return "", false, err
	}
	goaway := idle.GoneAway() != nil
	seen := fmt.Sprintf("readiness %d, the request %d, GOAWAY %s, exit code %d after %s",
		ready, got.status, yes(goaway), code, took(float64(time.Since(start).Milliseconds())))
	return seen, ready == http.StatusServiceUnavailable && got.ok() && goaway && code == 0, nil
}

// slowRequest is one that an application answers only when it is released.
type slowRequest struct {
	release  func() // may be called twice
	answered chan struct{}
	got      answer // once answered is closed
	err      error
}

// startSlowRequest returns when the request has reached the application.
func (w *world) startSlowRequest(ctx context.Context) (*slowRequest, error) {
	arrived, released := make(chan struct{}), make(chan struct{})
	app := w.reviews["v2"]
	app.Handle(func(x *meshtest.Exchange) {
		close(arrived)
		<-released
		meshtest.Tell(x)
	})
	r := &slowRequest{answered: make(chan struct{})}
	r.release = sync.OnceFunc(func() {
		app.Handle(nil)
		close(released)
	})
	go func() {
		defer close(r.answered)
		r.got, r.err = send(ctx, w.clientHTTP, http.MethodGet, "http://"+reviewsVIP+"/slow", "X-Canary", "1")
	}()
	if err := await(ctx, arrived); err != nil {
		r.release()
		return nil, fmt.Errorf("a request to drain with: %w", err)
	}
	return r, nil
}

func (r *slowRequest) answer(ctx context.Context) (answer, error) {
	if err := await(ctx, r.answered); err != nil {
		return answer{}, err
	}
	return r.got, r.err
}

// untilNotReady asks for the readiness until it has changed, and returns the status.
func (w *world) untilNotReady(ctx context.Context) int {
	for {
		code := readiness(ctx, w.web)
		if code != http.StatusOK || ctx.Err() != nil {
			return code
		}
	}
}

func readiness(ctx context.Context, web *http.Client) int {
	return getStatus(ctx, web, "http://"+statusAddr+"/healthz/ready")
}

// await waits for a channel to be closed.
func await(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return errors.New("not within the time of a step")
	}
}

func yes(b bool) string {
	if b {
		return "seen"
	}
	return "missing"
}
