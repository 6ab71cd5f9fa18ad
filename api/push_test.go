package api

import "testing"

func TestPush(t *testing.T) {
	for _, text := range []string{"0 1/1", "417 2/3", "18446744073709551615 3/3"} {
		p, ok := ParsePush(text)
		if !ok || p.String() != text {
			t.Errorf("%q is read as %v, %v", text, p, ok)
		}
	}
	for _, text := range []string{"", "417", "417 2", "417 0/3", "417 4/3", "-1 1/1", "x 1/1", "1 x/1", "1 1/x", "2026-11-30T10:00:00Z/12", "1  1/1"} {
		if p, ok := ParsePush(text); ok {
			t.Errorf("%q is read as %v", text, p)
		}
	}
	if p := (Push{Version: 1, Part: 1, Of: 2}); p.Last() {
		t.Errorf("%v is the last", p)
	}
}

func FuzzParsePush(f *testing.F) {
	f.Add("417 2/3")
	f.Add("1 +1/01")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := ParsePush(text)
		if !ok {
			return
		}
		if again, ok := ParsePush(p.String()); !ok || again != p {
			t.Errorf("%q: %v is written as %q and read as %v", text, p, p.String(), again)
		}
	})
}
