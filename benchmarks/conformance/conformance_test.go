package conformance

import (
	"errors"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/benchmarks/load"
)

func TestJudge(t *testing.T) {
	answer := load.Reply{Connect: 200, Head: "HTTP/1.1 200 OK\r\n\r\n", Body: "abc"}
	broken := errors.New("reset")
	for name, c := range map[string]struct {
		check check
		reply load.Reply
		err   error
		ok    bool
	}{
		"as wanted":             {check{status: "200", size: 3, sees: []string{"b", "c"}}, answer, nil, true},
		"another status":        {check{status: "403"}, answer, nil, false},
		"another size":          {check{size: 4}, answer, nil, false},
		"not seen":              {check{sees: []string{"d"}}, answer, nil, false},
		"broken":                {check{status: "200"}, load.Reply{}, broken, false},
		"refused by a status":   {check{refused: true}, load.Reply{Connect: 404}, nil, true},
		"refused by a reset":    {check{refused: true}, load.Reply{Connect: 200}, broken, true},
		"answered all the same": {check{refused: true}, answer, nil, false},
	} {
		if err := c.check.judge(c.reply, c.err); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRequest(t *testing.T) {
	got := request("POST", "/a", "x: y\r\n", "body")
	if !strings.HasPrefix(got, "POST /a HTTP/1.1\r\nhost: ") || !strings.HasSuffix(got, "\r\nx: y\r\ncontent-length: 4\r\n\r\nbody") {
		t.Errorf("%q", got)
	}
	if strings.Contains(get("/", ""), "content-length") {
		t.Error("a request without a body says its length")
	}
}
