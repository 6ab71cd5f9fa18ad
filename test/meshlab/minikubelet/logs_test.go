package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestSeekTail(t *testing.T) {
	for content, want := range map[string][3]string{ // of 0, 1 and 2 lines
		"a\nb\nc\n": {"", "c\n", "b\nc\n"},
		"a\n":       {"", "a\n", "a\n"},
		"":          {"", "", ""},
	} {
		for lines, want := range want {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := seekTail(f, lines); err != nil {
				t.Errorf("%q, %d lines: %v", content, lines, err)
			}
			if got, _ := io.ReadAll(f); string(got) != want {
				t.Errorf("%q: the last %d lines are %q, want %q", content, lines, got, want)
			}
		}
	}
}
