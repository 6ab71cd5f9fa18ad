package l7

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/flow/flowtest"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// judge is an application that reads requests as net/http does, and answers each
// in the turn in which it is complete.
type judge struct {
	*pipe
	t    *testing.T
	seen *[]string
}

func (j *judge) Wake(b *task.Batch) { b.Add(j) }

func (j *judge) RunIn(b *task.Batch) {
	for len(j.Peek()) > 0 {
		all := bytes.NewReader(j.Peek())
		in := bufio.NewReader(all)
		req, err := http.ReadRequest(in)
		if err != nil {
			if !bytes.Contains(j.Peek(), []byte("\r\n\r\n")) {
				return // not all of the head
			}
			j.t.Fatalf("net/http refuses what was sent upstream: %v\n%q", err, j.Peek())
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return // not all of the body
		}
		*j.seen = append(*j.seen, req.Method+" "+req.RequestURI)
		j.Discard(b, len(j.Peek())-all.Len()-in.Buffered())
		_, _ = j.Write(b, []byte(ok))
	}
}

// FuzzSmuggling holds that an application sees exactly the requests that were
// decided about, whatever a client sends.
func FuzzSmuggling(f *testing.F) {
	for _, s := range []string{
		get + get,
		"POST /a HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: e\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: e\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
		"POST /a HTTP/1.1\r\nHost: e\r\nContent-Length: 4\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: e\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n1;a=\"\r\n\"\r\nx\r\n0\r\nX: y\r\n\r\n",
		"GET /a/../%2e%2e//b?x HTTP/1.1\r\nHost: e\r\nConnection: x, keep-alive\r\nX: 1\r\n\r\n",
		"GET http://e/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(s), uint8(0))
	}
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		var seen []string
		rec := new(flowtest.Recorder)
		fw := newTable(t, rec, func(_ *task.Scheduler, theirs *pipe) { theirs.SetWaker(&judge{pipe: theirs, t: t, seen: &seen}) })
		client := fw.sit()
		fw.say(client, in, int(piece))
		if rec.Open() != 0 {
			t.Errorf("%d exchanges are still open", rec.Open())
		}
		var decided []string
		for _, f := range rec.Flows() {
			if f.Endpoint.IsValid() && f.Status == 200 {
				decided = append(decided, f.Method+" "+f.Path)
			}
		}
		if strings.Join(decided, "\n") != strings.Join(seen, "\n") {
			t.Errorf("decided about %q, the application saw %q", decided, seen)
		}
	})
}

// FuzzAnswer holds that a client reads of a response what net/http would have read
// of the endpoint, or is told that something is wrong.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		ok, "HTTP/1.1 200 OK\r\n\r\nuntil the end", "HTTP/1.1 100 Continue\r\n\r\n" + ok, "HTTP/1.1 204 No\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n", "HTTP/1.0 304 x\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(0), "GET")
		f.Add([]byte(s), uint8(3), "HEAD")
	}
	f.Fuzz(func(t *testing.T, in []byte, piece uint8, method string) {
		if method != "HEAD" {
			method = "GET"
		}
		var app *pipe
		rec := new(flowtest.Recorder)
		r := newTable(t, rec, func(_ *task.Scheduler, theirs *pipe) { app = theirs })
		client := r.sit()
		r.sched.Turn(func(b *task.Batch) {
			_, _ = client.Write(b, []byte(method+" / HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\r\n"))
		})
		r.say(app, in, int(piece))
		if rec.Open() != 0 {
			t.Fatal("the exchange is still open")
		}
		got, err := readAnswer(client.Peek(), method)
		if err == nil && got.Header.Get("Server") == "waypoint" && got.StatusCode >= 500 {
			return
		}
		want, wantErr := readAnswer(in, method)
		if (err == nil) != (wantErr == nil) && !(wantErr == nil && errors.Is(err, io.ErrUnexpectedEOF)) {
			t.Fatalf("the client reads %v, %v; of the endpoint it is %v, %v", got, err, want, wantErr)
		}
		if err == nil && (got.StatusCode != want.StatusCode || got.text != want.text) {
			t.Errorf("the client reads %d %q, the endpoint sent %d %q", got.StatusCode, got.text, want.StatusCode, want.text)
		}
	})
}

type readResponse struct {
	*http.Response
	text string
}

// readAnswer reads the final response in p.
func readAnswer(p []byte, method string) (*readResponse, error) {
	in := bufio.NewReader(bytes.NewReader(p))
	for {
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if res.StatusCode < 200 && res.StatusCode != 101 {
			continue
		}
		text, err := io.ReadAll(res.Body)
		return &readResponse{res, string(text)}, err
	}
}
