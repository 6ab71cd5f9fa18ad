package flow_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	sampled = "00-" + traceID + "-" + spanID + "-01"
)

// told writes a context as tests name it: TRACE-SPAN and what was decided.
func told(t flow.Trace) string {
	decision := "undecided"
	switch {
	case t.Decided && t.Sampled:
		decision = "sampled"
	case t.Decided:
		decision = "dropped"
	}
	if !t.Valid() {
		return decision
	}
	return hex.EncodeToString(t.TraceID[:]) + "-" + hex.EncodeToString(t.ParentID[:]) + " " + decision
}

func TestParseTraceparent(t *testing.T) {
	const context = traceID + "-" + spanID
	for _, c := range []struct{ name, in, want string }{
		{"sampled", sampled, context + " sampled"},
		{"not sampled", "00-" + context + "-00", context + " dropped"},
		{"other flags", "00-" + context + "-02", context + " dropped"},
		{"all flags", "00-" + context + "-ff", context + " sampled"},
		{"later version", "01-" + context + "-01", context + " sampled"},
		{"later version with more", "cc-" + context + "-01-what-ever", context + " sampled"},
		{"later version run on", "cc-" + context + "-01what", ""},
		{"version 0 with more", sampled + "-x", ""},
		{"version 0 with a dash", sampled + "-", ""},
		{"version ff", "ff-" + context + "-01", ""},
		{"upper case", "00-" + strings.ToUpper(context) + "-01", ""},
		{"no trace", "00-00000000000000000000000000000000-" + spanID + "-01", ""},
		{"no span", "00-" + traceID + "-0000000000000000-01", ""},
		{"no hex", "00-" + traceID[:31] + "g-" + spanID + "-01", ""},
		{"no hex in the flags", "00-" + context + "-0x", ""},
		{"other separators", strings.ReplaceAll(sampled, "-", "_"), ""},
		{"short", sampled[:54], ""},
		{"empty", "", ""},
		{"blank", " " + sampled, ""},
	} {
		got, ok := flow.ParseTraceparent(c.in)
		if ok != (c.want != "") || ok && told(got) != c.want {
			t.Errorf("%s: ParseTraceparent(%q) = %s, %v, want %q", c.name, c.in, told(got), ok, c.want)
		}
	}
}

func TestParseB3(t *testing.T) {
	const (
		context = traceID + "-" + spanID
		short   = "8448eb211c80319c"
		padded  = "0000000000000000" + short
	)
	for _, c := range []struct{ in, want string }{
		{context, context + " undecided"},
		{context + "-1", context + " sampled"},
		{context + "-d", context + " sampled"},
		{context + "-0", context + " dropped"},
		{context + "-1-05e3ac9a4f6e3b90", context + " sampled"},
		{short + "-" + spanID + "-1", padded + "-" + spanID + " sampled"},
		{"0", "dropped"},
		{"1", "sampled"},
		{"d", "sampled"},
		{"2", ""},
		{"", ""},
		{context + "-", ""},
		{context + "-1-", ""},
		{context + "-1-05e3ac9a4f6e3b90-", ""},
		{context + "-2", ""},
		{strings.ToUpper(context), ""},
		{traceID, ""},
		{"00000000000000000000000000000000-" + spanID + "-1", ""},
	} {
		got, ok := flow.ParseB3(c.in)
		if ok != (c.want != "") || ok && told(got) != c.want {
			t.Errorf("ParseB3(%q) = %s, %v, want %q", c.in, told(got), ok, c.want)
		}
	}
}

func TestExtract(t *testing.T) {
	const other = "11111111111111111111111111111111-2222222222222222"
	for _, c := range []struct {
		name   string
		fields []flow.Field
		want   string
		state  string
	}{
		{"nothing", []flow.Field{{Name: "accept", Value: "*/*"}}, "undecided", ""},
		{"w3c", []flow.Field{{Name: "traceparent", Value: sampled}, {Name: "tracestate", Value: "a=1,b=2"}}, traceID + "-" + spanID + " sampled", "a=1,b=2"},
		{"state in several fields", []flow.Field{{Name: "tracestate", Value: "a=1"}, {Name: "traceparent", Value: sampled}, {Name: "tracestate", Value: "b=2"}}, traceID + "-" + spanID + " sampled", "a=1,b=2"},
		{"state of a lost parent", []flow.Field{{Name: "tracestate", Value: "a=1"}}, "undecided", ""},
		{"bad state", []flow.Field{{Name: "traceparent", Value: sampled}, {Name: "tracestate", Value: "a"}}, traceID + "-" + spanID + " sampled", ""},
		{"long state", []flow.Field{{Name: "traceparent", Value: sampled}, {Name: "tracestate", Value: strings.Repeat("a=1234567,", 52)}}, traceID + "-" + spanID + " sampled", ""},
		{"two parents", []flow.Field{{Name: "traceparent", Value: sampled}, {Name: "traceparent", Value: sampled}}, "undecided", ""},
		{"w3c before b3", []flow.Field{{Name: "b3", Value: other + "-0"}, {Name: "traceparent", Value: sampled}}, traceID + "-" + spanID + " sampled", ""},
		{"b3 for bad w3c", []flow.Field{{Name: "b3", Value: other + "-0"}, {Name: "traceparent", Value: "?"}}, other + " dropped", ""},
		{"b3", []flow.Field{{Name: "b3", Value: other}}, other + " undecided", ""},
		{"b3 in several", []flow.Field{{Name: "x-b3-traceid", Value: other[:32]}, {Name: "x-b3-spanid", Value: other[33:]}, {Name: "x-b3-sampled", Value: "1"}, {Name: "x-b3-parentspanid", Value: spanID}}, other + " sampled", ""},
		{"b3 debug", []flow.Field{{Name: "x-b3-traceid", Value: other[:32]}, {Name: "x-b3-spanid", Value: other[33:]}, {Name: "x-b3-flags", Value: "1"}}, other + " sampled", ""},
		{"b3 refusal alone", []flow.Field{{Name: "x-b3-sampled", Value: "0"}}, "dropped", ""},
		{"b3 without span", []flow.Field{{Name: "x-b3-traceid", Value: other[:32]}, {Name: "x-b3-sampled", Value: "1"}}, "undecided", ""},
		{"b3 with nonsense", []flow.Field{{Name: "x-b3-traceid", Value: other[:32]}, {Name: "x-b3-spanid", Value: other[33:]}, {Name: "x-b3-sampled", Value: "yes"}}, "undecided", ""},
	} {
		got := flow.Trace{State: "left over", Sampled: true}
		got.Extract(c.fields)
		if told(got) != c.want || got.State != c.state {
			t.Errorf("%s: %s, state %q, want %s, state %q", c.name, told(got), got.State, c.want, c.state)
		}
	}
}

func TestTraceDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	fields := []flow.Field{{Name: "accept", Value: "*/*"}, {Name: "traceparent", Value: sampled}, {Name: "tracestate", Value: "a=1,b=2"}}
	var trace flow.Trace
	buffer := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		trace.Extract(fields)
		buffer = trace.AppendTraceparent(buffer[:0])
	}); n != 0 {
		t.Errorf("%v allocations to read and write a trace context, want 0", n)
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(sampled, "a=1,b=2", "", "")
	f.Add("", "", traceID+"-"+spanID+"-1-"+spanID, "")
	f.Add("cc-"+traceID+"-"+spanID+"-01-more", "a@b=c", "d", traceID)
	f.Fuzz(func(t *testing.T, parent, state, b3, id string) {
		var got flow.Trace
		got.Extract([]flow.Field{
			{Name: "traceparent", Value: parent},
			{Name: "tracestate", Value: state},
			{Name: "b3", Value: b3},
			{Name: "x-b3-traceid", Value: id},
			{Name: "x-b3-spanid", Value: b3},
		})
		if got.Valid() != (got.ParentID != [8]byte{}) {
			t.Fatalf("half a context: %+v", got)
		}
		if strings.ContainsAny(got.State, "\r\n\x00") || len(got.State) > 512 {
			t.Fatalf("tracestate %q handed on", got.State)
		}
		if !got.Valid() {
			return
		}
		// What we send has to be read as what we meant.
		again, ok := flow.ParseTraceparent(string(got.AppendTraceparent(nil)))
		if !ok || again.TraceID != got.TraceID || again.ParentID != got.SpanID || again.Sampled != got.Sampled {
			t.Fatalf("%+v sent, %+v received", got, again)
		}
	})
}

func BenchmarkExtract(b *testing.B) {
	fields := []flow.Field{
		{Name: "accept", Value: "*/*"},
		{Name: "user-agent", Value: "curl"},
		{Name: "x-request-id", Value: spanID},
		{Name: "traceparent", Value: sampled},
		{Name: "tracestate", Value: "a=1,b=2"},
	}
	b.ReportAllocs()
	var trace flow.Trace
	for b.Loop() {
		trace.Extract(fields)
	}
}
