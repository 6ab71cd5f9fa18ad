package kubectl

import (
	"encoding/json"
	"strings"
	"testing"
)

const cartDump = `{"namespace": "shop", "hostname": "cart.shop", "attached": true, "ports": [
  {"number": 80, "protocol": "http", "endpoints": [{}, {}],
   "routes": {"http": [{"route": "HTTPRoute shop/b"}, {"route": "HTTPRoute shop/b"}, {"route": "HTTPRoute shop/a"}]},
   "consumerRoutes": {"bank": {"tcp": {"route": "TCPRoute bank/c"}}},
   "policies": [{"policy": "shop/p", "action": "ALLOW"}, {"policy": "shop/q", "action": "DENY", "dryRun": true}, {"policy": "shop/r", "action": "DENY", "invalid": "x"}]},
  {"number": 81, "protocol": "tcp", "endpoints": []}]}`

func TestSnapshot(t *testing.T) {
	const header = "SERVICE          FRONTED   PORT   PROTOCOL   ENDPOINTS   ROUTES                                                                   POLICIES\n"
	const lines = "shop/cart.shop   yes       80     http       2           HTTPRoute shop/a, HTTPRoute shop/b, TCPRoute bank/c (clients of bank)   " +
		"ALLOW shop/p, DENY shop/q (dry run), DENY shop/r (invalid: denies everything)\n" +
		"shop/cart.shop   yes       81     tcp        0           -                                                                       -\n"
	whole := `{"version": 7, "services": [` + cartDump + `], "rejected": [{"object": "HTTPRoute shop/x", "reason": "no"}], "conflicts": [{"object": "TCPRoute shop/y", "reason": "two"}]}`
	for name, c := range map[string]struct {
		raw  string
		one  bool
		want string
	}{
		"of one service": {cartDump, true, header + lines},
		"whole":          {whole, false, header + lines + "! HTTPRoute shop/x: no\n! TCPRoute shop/y: two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ReadSnapshot([]byte(c.raw), c.one)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := s.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if squeeze(text.String()) != squeeze(c.want) {
				t.Errorf("got\n%s\nwant\n%s", text.String(), c.want)
			}
			again, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if json.Unmarshal(again, &got) != nil || json.Unmarshal([]byte(c.raw), &want) != nil || !equalJSON(got, want) {
				t.Errorf("as data it is\n%s", again)
			}
		})
	}
	if _, err := ReadSnapshot([]byte("<html>"), false); err == nil {
		t.Error("a page is taken for a snapshot")
	}
}

// squeeze makes columns of any width alike.
func squeeze(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
