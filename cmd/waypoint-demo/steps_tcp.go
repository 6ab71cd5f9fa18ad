package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// dial opens a stream to a service that ends with ctx.
func (w *world) dial(ctx context.Context, target string) (*meshtest.Stream, error) {
	s, err := w.client.Dial(ctx, hboneAddr, target)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = s.SetDeadline(deadline)
	}
	return s, err
}

const tcpExpected = "20,000,000 bytes sent and our side closed; the application counts them and still answers"

func halfClose(ctx context.Context, w *world) (string, bool, error) {
	s, err := w.dial(ctx, ledgerVIP)
	if err != nil {
		return "", false, err
	}
	defer s.Close()
	const size = 20_000_000
	if _, err := io.CopyN(s, bytes.NewReader(make([]byte, size)), size); err != nil {
		return "", false, err
	}
	if err := s.CloseWrite(); err != nil {
		return "", false, err
	}
	answer, err := io.ReadAll(s)
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("the answer: %q", answer), string(answer) == fmt.Sprintf("%d bytes and an end", size), nil
}

const (
	// detection is how long a waypoint waits for a client's first bytes before it
	// takes an undeclared port for TCP, and what a busy machine may add to that.
	detection = 200*time.Millisecond + 800*time.Millisecond

	serverFirstExpected = "the server's greeting within a second though the client is silent; then a line and its answer"
)

func serverFirst(ctx context.Context, w *world) (string, bool, error) {
	start := time.Now()
	s, err := w.dial(ctx, mailVIP)
	if err != nil {
		return "", false, err
	}
	defer s.Close()
	in := bufio.NewReader(s)
	greeted, err := in.ReadString('\n')
	if err != nil {
		return "", false, err
	}
	took := time.Since(start)
	if _, err := io.WriteString(s, "NOOP\n"); err != nil {
		return "", false, err
	}
	answer, err := in.ReadString('\n')
	if err != nil {
		return "", false, err
	}
	seen := fmt.Sprintf("%q after %s; then %q", strings.TrimSpace(greeted), millis(took), strings.TrimSpace(answer))
	return seen, greeted == greeting && answer == "you said NOOP\n" && took < detection, nil
}

const sniExpected = "two names on one address reach two applications, by their own certificates; a third name is refused"

func serverNames(ctx context.Context, w *world) (string, bool, error) {
	var seen []string
	ok := true
	for _, app := range []string{"accounts", "billing"} {
		name := app + ".shop.test"
		answered, err := w.overTLS(ctx, name)
		if err != nil {
			return "", false, fmt.Errorf("%s: %w", name, err)
		}
		seen = append(seen, fmt.Sprintf("%s at %s", name, answered))
		ok = ok && answered == app
	}
	if answered, err := w.overTLS(ctx, "other.shop.test"); err == nil {
		return "other.shop.test at " + answered, false, nil
	}
	return strings.Join(seen, ", ") + "; other.shop.test refused", ok, nil
}

// overTLS connects to the shared address under a server name, and returns which
// application answered. Its certificate must be for that name: the waypoint has none.
func (w *world) overTLS(ctx context.Context, name string) (app string, err error) {
	s, err := w.dial(ctx, secureVIP)
	if err != nil {
		return "", err
	}
	defer s.Close()
	conn := tls.Client(s, &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true, //nolint:gosec // nobody vouches for the applications of the demo; the name is checked below
		MinVersion:         tls.VersionTLS12,
		VerifyConnection: func(state tls.ConnectionState) error {
			return state.PeerCertificates[0].VerifyHostname(name)
		},
	})
	line, err := bufio.NewReader(conn).ReadString('\n')
	app, _, _ = strings.Cut(line, " ")
	return app, err
}
