// Package ask is what the commands that explain a request have in common, whoever
// answers: flags that make a question, the way to a running waypoint's admin port,
// and how an answer is printed.
package ask

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
	"github.com/spf13/pflag"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/explain"
	"github.com/waypoint-mesh/waypoint/internal/hbone"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// Flags are those that make a question.
type Flags struct {
	question explain.Question
	headers  []string
}

// Register adds the flags to a command's.
func (q *Flags) Register(f *pflag.FlagSet) {
	f.StringVar(&q.question.From, "from", "", "SPIFFE identity of the client")
	f.StringVar(&q.question.FromIP, "from-ip", "", "its address")
	f.StringVar(&q.question.RemoteIP, "remote-ip", "", "address that a trusted hop in front of it vouches for")
	f.StringVar(&q.question.To, "to", "", "what the client dials: ADDRESS:PORT or HOST:PORT, the whole host name")
	f.StringVar(&q.question.SNI, "sni", "", "server name of TLS inside")
	f.StringArrayVarP(&q.headers, "header", "H", nil, "request header, 'name: value'; may be repeated")
}

// Args takes METHOD and URL, or neither.
func Args(_ *cobra.Command, args []string) error {
	if len(args) != 0 && len(args) != 2 {
		return errors.New("METHOD and URL belong together: both for a request, neither for a TCP connection")
	}
	return nil
}

// Question makes the question of flags and arguments, or a usage error.
func (q *Flags) Question(args []string) (explain.Question, error) {
	question := q.question
	if err := q.check(); err != nil {
		return question, err
	}
	if len(args) == 2 {
		question.Method, question.URL = args[0], args[1]
	}
	for _, h := range q.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return question, cli.Usagef("-H %q: expected 'name: value'", h)
		}
		question.Headers = append(question.Headers, explain.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	return question, nil
}

// check finds flags that are missing or cannot be understood.
func (q *Flags) check() error {
	switch {
	case q.question.From == "":
		return cli.Usagef("--from is needed: the client's SPIFFE identity")
	case q.question.To == "":
		return cli.Usagef("--to is needed: ADDRESS:PORT or HOST:PORT")
	}
	_, badFrom := identity.Parse(q.question.From)
	_, badTo := hbone.ParseTarget(q.question.To)
	return errors.Join(
		cli.FlagUsage("from", badFrom), cli.FlagUsage("to", badTo),
		cli.FlagUsage("from-ip", address(q.question.FromIP)), cli.FlagUsage("remote-ip", address(q.question.RemoteIP)),
	)
}

// address checks an address that may be left out.
func address(text string) error {
	if text == "" {
		return nil
	}
	_, err := netip.ParseAddr(text)
	return err
}

// Print writes an answer, as JSON or as text for people.
func Print(w io.Writer, answer *explain.Answer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(answer)
	}
	_, err := io.WriteString(w, answer.Text())
	return err
}

// timeout bounds the question to a running waypoint.
const timeout = 10 * time.Second

// Running asks a running waypoint. admin is the URL of its admin port, or
// HOST:PORT.
func Running(ctx context.Context, admin string, question explain.Question) (*explain.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	target, err := url.JoinPath(admin, "explain")
	if err != nil {
		return nil, cli.FlagUsage("admin", err)
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, cli.FlagUsage("admin", err)
	}
	req.Header.Set("Content-Type", "application/json")
	return answerTo(req)
}

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
