package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waypoint-mesh/waypoint/internal/explain"
	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// asked is the command line of `waypoint explain`.
type asked struct {
	manifests
	admin    string
	output   string
	headers  []string
	question explain.Question
}

func newExplain() *cobra.Command {
	var a asked
	cmd := &cobra.Command{
		Use:   "explain (--config PATH | --admin URL) --from spiffe://... --to TARGET [METHOD URL]",
		Short: "Tell what would happen to a request, and why",
		Long: `Tells which service and protocol a request is for, which policy and rule allows or denies it,
which route and rule it follows, what filters do to it, which endpoints may get it, and why not
the others: by the engines of the data path itself. Asks manifests, or a running waypoint through
its admin port. Without METHOD and URL the question is about a TCP connection.`,
		Example: `  waypoint explain --config mesh/ --from spiffe://cluster.local/ns/default/sa/client \
    --to 10.0.0.1:8080 GET /reviews/1 -H 'x-canary: 1'

  waypoint explain --admin http://127.0.0.1:15000 --from spiffe://cluster.local/ns/default/sa/client \
    --to mysql.db.svc.cluster.local:3306`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return errors.New("METHOD and URL belong together: both for a request, neither for a TCP connection")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runExplain(cmd, &a, args) },
	}
	f := cmd.Flags()
	a.register(f)
	f.StringVar(&a.admin, "admin", "", "URL, or HOST:PORT, of a running waypoint's admin port")
	f.StringVar(&a.question.From, "from", "", "SPIFFE identity of the client")
	f.StringVar(&a.question.FromIP, "from-ip", "", "its address")
	f.StringVar(&a.question.RemoteIP, "remote-ip", "", "address that a trusted hop in front of it vouches for")
	f.StringVar(&a.question.To, "to", "", "what the client dials: ADDRESS:PORT or HOST:PORT, the whole host name")
	f.StringVar(&a.question.SNI, "sni", "", "server name of TLS inside")
	f.StringArrayVarP(&a.headers, "header", "H", nil, "request header, 'name: value'; may be repeated")
	f.StringVar(&a.output, "output", "text", "text or json")
	return cmd
}

func runExplain(cmd *cobra.Command, a *asked, args []string) error {
	if err := a.complete(args); err != nil {
		return err
	}
	answer, err := a.ask(cmd.Context())
	if err != nil {
		return err
	}
	if a.output == "json" {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(answer)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), answer.Text())
	return err
}

// complete checks the flags and makes the question of them.
func (a *asked) complete(args []string) error {
	switch {
	case a.config == "" && a.admin == "":
		return usagef("one of --config and --admin is needed: manifests, or a running waypoint")
	case a.config != "" && a.admin != "":
		return usagef("--config and --admin exclude each other: manifests are asked, or a running waypoint")
	case a.question.From == "":
		return usagef("--from is needed: the client's SPIFFE identity")
	case a.question.To == "":
		return usagef("--to is needed: ADDRESS:PORT or HOST:PORT")
	}
	if err := a.check(); err != nil {
		return err
	}
	if len(args) == 2 {
		a.question.Method, a.question.URL = args[0], args[1]
	}
	for _, h := range a.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return usagef("-H %q: expected 'name: value'", h)
		}
		a.question.Headers = append(a.question.Headers, explain.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	return nil
}

// check finds flags that cannot be understood.
func (a *asked) check() error {
	_, badFrom := identity.Parse(a.question.From)
	_, badTo := hbone.ParseTarget(a.question.To)
	return errors.Join(
		usageIf("from", badFrom), usageIf("to", badTo),
		usageIf("from-ip", address(a.question.FromIP)), usageIf("remote-ip", address(a.question.RemoteIP)),
		checkGateway(a.gateway), oneOf("output", a.output, "text", "json"),
	)
}

// usageIf makes a usage error of one that a flag's value led to.
func usageIf(flag string, err error) error {
	if err == nil {
		return nil
	}
	return usagef("--%s: %w", flag, err)
}

// address checks an address that may be left out.
func address(text string) error {
	if text == "" {
		return nil
	}
	_, err := netip.ParseAddr(text)
	return err
}

func (a *asked) ask(ctx context.Context) (*explain.Answer, error) {
	if a.admin != "" {
		return a.askRunning(ctx)
	}
	var store mesh.Store
	if err := files.New(a.source(), &store).Load(); err != nil {
		return nil, unclearGateway(err)
	}
	return explain.Explain(store.Load(), a.question)
}

// askTimeout bounds the question to a running waypoint.
const askTimeout = 10 * time.Second

func (a *asked) askRunning(ctx context.Context) (*explain.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	admin := a.admin
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	target, err := url.JoinPath(admin, "explain")
	if err != nil {
		return nil, usagef("--admin: %w", err)
	}
	body, err := json.Marshal(a.question)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, usagef("--admin: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	return answerTo(req)
}

// answerTo sends the question to a running waypoint.
func answerTo(req *http.Request) (*explain.Answer, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the waypoint (not running, or another --admin?): %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s knows no /explain: is it the admin port?", req.URL.Host)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the waypoint answers %s: %s", resp.Status, bytes.TrimSpace(raw))
	}
	answer := new(explain.Answer)
	return answer, json.Unmarshal(raw, answer)
}
