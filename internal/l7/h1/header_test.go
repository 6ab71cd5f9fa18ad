package h1

import (
	"slices"
	"testing"
)

func TestHeader(t *testing.T) {
	var h Header
	h.AddAll([]Field{{"a", "1"}, {"b", "2"}, {"a", "3"}, {"c", "4"}})
	h.Set("a", "5")
	if want := []Field{{"a", "5"}, {"b", "2"}, {"c", "4"}}; !slices.Equal(h.Fields, want) {
		t.Errorf("after Set: %q", h.Fields)
	}
	h.Del("b")
	h.Set("d", "6")
	if want := []Field{{"a", "5"}, {"c", "4"}, {"d", "6"}}; !slices.Equal(h.Fields, want) {
		t.Errorf("after Del: %q", h.Fields)
	}
	var c Header
	c.CopyFrom(&h)
	h.Reset()
	if c.Get("c") != "4" || c.Has("b") || h.Len() != 0 {
		t.Errorf("copy %q, reset %q", c.Fields, h.Fields)
	}
	if got := string(AppendHeader(nil, &c)); got != "a: 5\r\nc: 4\r\nd: 6\r\n" {
		t.Errorf("written as %q", got)
	}
}

// TestValidValue: every byte at every place of a word.
func TestValidValue(t *testing.T) {
	for c := range 256 {
		want := c >= ' ' && c != 0x7f || c == '\t'
		for at := range 19 {
			v := []byte("abcdefgh\xff\x80 ijklmnop")
			v[at] = byte(c)
			if got := ValidValue(string(v)); got != want {
				t.Errorf("%q: %v", v, got)
			}
		}
	}
	if !ValidValue("") {
		t.Error("an empty value is refused")
	}
}
