package h1

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// decode feeds s to c in pieces of the given size and returns body and rest.
func decode(c *Chunks, s string, piece int) (body, rest string, err error) {
	var have []byte
	for !c.Done() {
		if len(s) == 0 && len(have) == 0 {
			return body, "", errors.New("incomplete")
		}
		n := min(piece, len(s))
		have, s = append(have, s[:n]...), s[n:]
		for {
			skip, data, err := c.Next(have)
			if err != nil {
				return body, "", err
			}
			body += string(have[skip : skip+data])
			have = have[skip+data:]
			if skip+data == 0 || c.Done() {
				break
			}
		}
		if n == 0 && !c.Done() {
			return body, "", errors.New("incomplete")
		}
	}
	return body, string(have) + s, nil
}

func newChunks() *Chunks {
	c := new(Chunks)
	c.Reset(1000, limits)
	return c
}

func TestChunks(t *testing.T) {
	in := "5;a=b\r\nhello\r\n00A\r\n, world!!!\r\n0\r\nX-T: 1\r\nContent-Length: 4\r\nGrpc-Status: 5\r\n\r\nrest"
	for piece := 1; piece <= len(in); piece++ {
		c := newChunks()
		body, rest, err := decode(c, in, piece)
		if err != nil || body != "hello, world!!!" || rest != "rest" {
			t.Fatalf("in pieces of %d: body %q, rest %q, %v", piece, body, rest, err)
		}
		if want := []Field{{"x-t", "1"}, {"grpc-status", "5"}}; !slices.Equal(c.Trailers.Fields, want) {
			t.Fatalf("trailers %q", c.Trailers.Fields)
		}
	}
}

func TestChunksRefused(t *testing.T) {
	for name, in := range map[string]string{
		"bare LF after size":   "5\nhello\r\n0\r\n\r\n",
		"bare LF in extension": "5;a\n\r\nhello\r\n0\r\n\r\n",
		"no size":              "\r\nhello",
		"sign":                 "+5\r\nhello\r\n",
		"prefix":               "0x5\r\nhello\r\n",
		"space":                "5 \r\nhello\r\n",
		"overflow":             "fffffffffffffffff\r\n",
		"data too long":        "5\r\nhello!\r\n0\r\n\r\n",
		"LF after data":        "5\r\nhello\n0\r\n\r\n",
		"long extension":       "5;" + strings.Repeat("x", 300) + "\r\nhello\r\n0\r\n\r\n",
		"long trailers":        "0\r\nA: " + strings.Repeat("x", 1000) + "\r\n\r\n",
		"malformed trailer":    "0\r\nA\r\n\r\n",
	} {
		for _, piece := range []int{1, 7, 4096} {
			if _, _, err := decode(newChunks(), in, piece); err == nil || err.Error() == "incomplete" {
				t.Errorf("%s in pieces of %d: %v", name, piece, err)
			}
		}
	}
}

func TestAppendRoundTrip(t *testing.T) {
	out := AppendChunkSize(nil, 300)
	out = append(out, strings.Repeat("x", 300)+"\r\n"...)
	out = AppendLastChunk(out, []Field{{"grpc-status", "0"}, {"content-length", "1"}, {"bad", "a\r\nb"}})
	c := newChunks()
	body, rest, err := decode(c, string(out), len(out))
	if err != nil || len(body) != 300 || rest != "" || !slices.Equal(c.Trailers.Fields, []Field{{"grpc-status", "0"}}) {
		t.Errorf("body of %d, rest %q, trailers %q, %v", len(body), rest, c.Trailers.Fields, err)
	}
}

func TestChunksDoNotAllocate(t *testing.T) {
	in := []byte("400\r\n" + strings.Repeat("x", 1024) + "\r\n0\r\n\r\n")
	c := newChunks()
	if n := testing.AllocsPerRun(100, func() {
		c.Reset(1000, limits)
		for p := in; !c.Done(); {
			skip, data, err := c.Next(p)
			if err != nil {
				t.Fatal(err)
			}
			p = p[skip+data:]
		}
	}); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
