// Package conformance checks, before anything is measured, that targets do the
// same work: each answers the same requests as one table says, routes them to the
// same place, and has each in its access log and its metrics. Neither is then
// measured doing less.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
	"github.com/waypoint-mesh/waypoint/benchmarks/node"
	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// mesh has some of everything that the scenarios add.
var mesh = target.Mesh{Routes: 20, Services: 2, Policies: 2}

// Check returns how t differs from what is expected of every target, nil if it
// does not. dir is for its access log.
func Check(ctx context.Context, n *target.Network, t *target.Target, dir string) (err error) {
	m := mesh
	m.AccessLog = filepath.Join(dir, t.Name+"-access.log")
	i, err := t.Start(ctx, n, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Stop()) }()
	clients := make(map[string]*load.Client)
	for _, account := range []string{target.Client, target.Stranger} {
		config, err := n.ClientTLS(account)
		if err != nil {
			return err
		}
		clients[account] = load.NewClient(i.HBONE, config)
	}
	var problems []error
	for _, c := range checks {
		if err := c.run(ctx, clients); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", c.what, err))
		}
	}
	problems = append(problems, split(ctx, clients[target.Client]), logged(ctx, m.AccessLog), counted(ctx, i))
	return errors.Join(problems...)
}

func (c check) run(ctx context.Context, clients map[string]*load.Client) error {
	from := target.Client
	if c.stranger {
		from = target.Stranger
	}
	to := c.to
	if to == "" {
		to = target.HTTP
	}
	reply, err := clients[from].Probe(ctx, to, []byte(c.send), c.raw)
	return c.judge(reply, err)
}

func (c check) judge(r load.Reply, err error) error {
	if c.refused {
		if err == nil && r.Connect == 200 {
			return fmt.Errorf("got %q, want a refusal", r.Head+r.Body)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if line, _, _ := strings.Cut(r.Head, "\r\n"); c.status != "" && !strings.HasPrefix(line, "HTTP/1.1 "+c.status) {
		return fmt.Errorf("answer %q, want %s", line, c.status)
	}
	if c.size > 0 && len(r.Body) != c.size {
		return fmt.Errorf("a body of %d bytes, want %d", len(r.Body), c.size)
	}
	for _, want := range c.sees {
		if !strings.Contains(r.Body, want) {
			return fmt.Errorf("the application got %q, want %q in it", r.Body, want)
		}
	}
	return nil
}

// splitRequests are enough for a share of 10 % to be told from 0 and from 50.
const splitRequests = 200

// split checks the shares of the two subsets.
func split(ctx context.Context, c *load.Client) error {
	second := 0
	for range splitRequests {
		r, err := c.Probe(ctx, target.HTTP, []byte(get("/split/head", "")), 0)
		if err != nil {
			return fmt.Errorf("split: %w", err)
		}
		if strings.Contains(r.Body, ":8081\r\n") {
			second++
		}
	}
	if second < splitRequests*3/100 || second > splitRequests*20/100 {
		return fmt.Errorf("split: %d of %d requests went to a subset of weight 10", second, splitRequests)
	}
	return nil
}

const patience = 5 * time.Second

// logged waits until the access log has the requests of split.
func logged(ctx context.Context, path string) error {
	return eventually(ctx, func() error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(raw, []byte("GET /split/head HTTP/1.1")); n != splitRequests {
			return fmt.Errorf("access log: %d lines of %d requests", n, splitRequests)
		}
		return nil
	})
}

// counted waits until the metrics have them.
func counted(ctx context.Context, i *target.Instance) error {
	return eventually(ctx, func() error {
		n, err := i.RequestsCounted(ctx)
		if err == nil && n < splitRequests {
			err = fmt.Errorf("metrics: %v requests of %d at least", n, splitRequests)
		}
		return err
	})
}

func eventually(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// get returns a request; fields are header lines with their ends.
func get(path, fields string) string { return request("GET", path, fields, "") }

func request(method, path, fields, body string) string {
	if body != "" {
		fields += fmt.Sprintf("content-length: %d\r\n", len(body))
	}
	return fmt.Sprintf("%s %s HTTP/1.1\r\nhost: reviews.default.svc.cluster.local:8080\r\n%s\r\n%s", method, path, fields, body)
}

// check is one exchange and what is to come of it.
type check struct {
	what     string
	stranger bool   // from an identity that no policy lets in
	to       string // default the HTTP service
	send     string
	raw      int // bytes that are to come back, where HTTP/1.1 is not spoken

	refused bool     // no answer
	status  string   // of the answer
	size    int      // of its body
	sees    []string // what the application got
}

var ping = strings.Repeat("ping", 1000)

var checks = []check{
	{what: "an answer of 1 KiB", send: get("/", ""), status: "200", size: node.DefaultSize},
	{what: "a large answer", send: get("/size/300000", ""), status: "200", size: 300_000},
	{what: "the request as sent", send: get("/a/head?q=1", "x-mine: 1\r\n"), status: "200", sees: []string{"GET /a/head?q=1 HTTP/1.1", "reviews.default.svc.cluster.local:8080", "x-mine: 1", "x-request-id: "}},
	{what: "a request with a body", send: request("POST", "/", "", ping), status: "200", size: node.DefaultSize},
	{what: "route by header", send: get("/head", "x-canary: 1\r\n"), status: "200", sees: []string{":8081\r\n"}},
	{what: "route by path", send: get("/admin/head", ""), status: "200", sees: []string{":8080\r\n", "x-wp: 1"}},
	{what: "route by path and header among many", send: get("/svc7/items/head", "x-tenant: t7\r\n"), status: "200", sees: []string{":8080\r\n"}},
	{what: "a path that only begins like a route's", send: get("/administration/head", "x-canary: 1\r\n"), status: "200", sees: []string{":8081\r\n"}},
	{what: "policy: a method that is not allowed", send: request("PUT", "/", "", "x"), status: "403"},
	{what: "policy: an identity that is not allowed", stranger: true, send: get("/", ""), status: "403"},
	{what: "another service", to: "10.1.0.2:8080", send: get("/", ""), status: "200", size: node.DefaultSize},
	{what: "TCP", to: target.TCP, send: ping, raw: len(ping)},
	{what: "TCP policy", stranger: true, to: target.TCP, send: ping, raw: len(ping), refused: true},
	{what: "an address that nobody has", to: "10.9.9.9:8080", send: get("/", ""), refused: true},
}
