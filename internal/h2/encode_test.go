package h2

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// TestEncoderAgainstHpack has x/net's decoder read sections whose fields repeat,
// differ, are empty, long and secret, while the table's size changes.
func TestEncoderAgainstHpack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	enc := newEncoder()
	dec := hpack.NewDecoder(4096, nil)
	for round := range 2000 {
		if rng.IntN(50) == 0 {
			for range rng.IntN(3) {
				enc.setMax(uint32(rng.IntN(6000)))
			}
		}
		fields := randomFields(rng)
		p := enc.begin(nil)
		for _, f := range fields {
			p = enc.field(p, f.Name, f.Value)
		}
		got, err := dec.DecodeFull(p)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if len(got) != len(fields) {
			t.Fatalf("round %d: %d fields, want %d", round, len(got), len(fields))
		}
		for i, f := range fields {
			if got[i].Name != f.Name || got[i].Value != f.Value {
				t.Fatalf("round %d: field %d is %v, want %v", round, i, got[i], f)
			}
			if got[i].Sensitive != secret(f.Name) {
				t.Fatalf("round %d: %s: never-indexed is %v", round, f.Name, got[i].Sensitive)
			}
		}
		if enc.size > enc.max {
			t.Fatalf("round %d: table holds %d of %d bytes", round, enc.size, enc.max)
		}
	}
}

func randomFields(rng *rand.Rand) []Field {
	var fields []Field
	for range 1 + rng.IntN(12) {
		switch rng.IntN(6) {
		case 0:
			fields = append(fields, Field{":method", "GET"})
		case 1:
			fields = append(fields, Field{"cookie", fmt.Sprint("id=", rng.IntN(5))})
		case 2:
			fields = append(fields, Field{"traceparent", fmt.Sprint(rng.Uint64())})
		case 3:
			fields = append(fields, Field{fmt.Sprint("x-name-", rng.IntN(40)), ""})
		case 4:
			fields = append(fields, Field{"user-agent", strings.Repeat("a\xff", rng.IntN(4)*700)})
		default:
			fields = append(fields, Field{"content-type", fmt.Sprint("type/", rng.IntN(3))})
		}
	}
	return fields
}

func TestEncoderKeepsNothingOfItsArguments(t *testing.T) {
	enc := newEncoder()
	name, value := []byte("x-name"), []byte("first-value")
	for range 3 {
		enc.field(nil, string(name), string(value))
	}
	if len(enc.entries) != 1 || enc.entries[0].text != "x-namefirst-value" {
		t.Fatalf("table: %v", enc.entries)
	}
}

func TestEncoderDoesNotAllocate(t *testing.T) {
	enc := newEncoder()
	values := make([]string, 100)
	for i := range values {
		values[i] = fmt.Sprintf("00-%032d-%016d-01", i, i)
	}
	p := make([]byte, 0, 1024)
	i := 0
	got := allocs(func() {
		p = enc.field(p[:0], ":authority", "10.0.0.1:8080")
		p = enc.field(p, "traceparent", values[i%len(values)])
		p = enc.field(p, "user-agent", "curl/8.0")
		i++
	})
	if got > 0 && !raceEnabled {
		t.Errorf("%v allocations a section, want 0", got)
	}
}
