package files

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		name, content string
		json          bool
		want          []chunk
	}{
		{name: "empty"},
		{name: "blank", content: "\n  \n# nothing\n---\n---\n"},
		{name: "one", content: "a: 1\n", want: []chunk{{"a: 1\n", 1}}},
		{name: "no line end", content: "a: 1", want: []chunk{{"a: 1", 1}}},
		{name: "several", content: "a: 1\n---\nb: 2\n---\nc: 3\n", want: []chunk{{"a: 1\n", 1}, {"b: 2\n", 3}, {"c: 3\n", 5}}},
		{name: "first marker", content: "---\na: 1\n", want: []chunk{{"a: 1\n", 2}}},
		{name: "comment after marker", content: "--- # one\na: 1\n", want: []chunk{{"a: 1\n", 2}}},
		{name: "document on the marker's line", content: "--- {a: 1}\n--- {b: 2}", want: []chunk{{" {a: 1}\n", 1}, {" {b: 2}", 2}}},
		{name: "end marker", content: "a: 1\n...\n---\nb: 2\n", want: []chunk{{"a: 1\n", 1}, {"b: 2\n", 4}}},
		{name: "directive", content: "%YAML 1.2\n---\na: 1\n", want: []chunk{{"a: 1\n", 3}}},
		{name: "windows", content: "a: 1\r\n---\r\nb: 2\r\n", want: []chunk{{"a: 1\r\n", 1}, {"b: 2\r\n", 3}}},
		{name: "byte order mark", content: "\ufeffa: 1\n", want: []chunk{{"a: 1\n", 1}}},
		{name: "markers that are none", content: "a: |\n  ---\n  ...\nb: ----\n----: 1\n", want: []chunk{{"a: |\n  ---\n  ...\nb: ----\n----: 1\n", 1}}},
		{name: "JSON", content: "\n{\"a\": 1}\n{\"b\": [\n2]}\n\n3", json: true, want: []chunk{{`{"a": 1}`, 2}, {"{\"b\": [\n2]}", 3}, {"3", 6}}},
		{name: "empty JSON", content: " \n", json: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := split(tt.content, tt.json)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

func TestSplitRefuses(t *testing.T) {
	for name, content := range map[string]string{
		"binary": "a: 1\x00", "latin1": "a: \xe9", "utf16": "\xff\xfea\x00:\x00",
	} {
		if _, err := split(content, false); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := split(`{"a": 1`, true); err == nil {
		t.Error("half a JSON document is taken")
	}
}

// FuzzSplit checks what everything else relies on: that documents are parts of
// the content in its order, on the lines that are said, and that none is lost.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "a: 1\n---\nb: 2\n...\n", "--- x\r\n---", "%YAML\n---\n\ufeff", "{\"a\":1}\n[2]", "----\n...a\n---\t\n"} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, content string, json bool) {
		chunks, err := split(content, json)
		if err != nil {
			return
		}
		rest := strings.TrimPrefix(content, byteOrderMark)
		lines := strings.SplitAfter(rest, "\n")
		at := 0
		for _, c := range chunks {
			if c.line < 1 || c.line > len(lines) {
				t.Fatalf("line %d of %q", c.line, rest)
			}
			from := max(at, len(strings.Join(lines[:c.line-1], "")))
			i := strings.Index(rest[from:], c.text)
			if i < 0 || i > len(lines[c.line-1]) || c.text == "" {
				t.Fatalf("%q does not begin in line %d of %q", c.text, c.line, rest)
			}
			for line := range strings.Lines(rest[at : from+i]) {
				if !json && hasContent(line) && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "...") {
					t.Fatalf("%q is lost between documents of %q", line, rest)
				}
			}
			at = from + i + len(c.text)
		}
	})
}

// BenchmarkSplit is what an edit among 5,000 documents in one file costs before
// anything is decoded; at most 10 ms is wanted.
func BenchmarkSplit(b *testing.B) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, routeText, i, i, i)
	}
	m := manifest{}
	chunks, _ := split(text.String(), false)
	for _, c := range chunks {
		m.docs = append(m.docs, &document{chunk: c})
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		chunks, err := split(strings.Clone(text.String()), false)
		if err != nil {
			b.Fatal(err)
		}
		m.decode(chunks)
	}
	if m.decoded != 0 {
		b.Fatalf("%d documents were decoded", m.decoded)
	}
}

// routeText is a route to a Service, to be filled with numbers.
const routeText = `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r%d, namespace: default}
spec:
  parentRefs: [{group: "", kind: Service, name: s%d, port: 8080}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /p%d}}]
    backendRefs: [{name: s0, port: 8080, weight: 90}, {name: s1, port: 8080, weight: 10}]
`
