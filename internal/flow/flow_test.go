package flow_test

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/waypoint-mesh/waypoint/internal/flow"
)

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		flags flow.Flags
		want  string
	}{
		{0, "-"},
		{flow.NoHealthyUpstream, "UH"},
		{flow.UpstreamFailure, "UF"},
		{flow.Unauthorized, "-"},
		{flow.ResponseTooLarge, "RSTL"},
		{flow.UpstreamFailure | flow.RetryLimit, "UF,URX"},
		{flow.UpstreamReset | flow.Unauthorized | flow.DownstreamClosed, "UR,DC"},
		{1 << 31, "-"},
	} {
		if got := c.flags.String(); got != c.want {
			t.Errorf("Flags(%#x) = %q, want %q", uint32(c.flags), got, c.want)
		}
		if got := string(c.flags.Append([]byte("x "))); got != "x "+c.want {
			t.Errorf("Flags(%#x).Append = %q, want %q", uint32(c.flags), got, "x "+c.want)
		}
	}
}

// Every string of a clone has to be its own: a forgotten one shows as text of
// another request in a span. New fields are found by reflection.
func TestCloneOwnsItsStrings(t *testing.T) {
	f := &flow.Flow{DryRun: make([]flow.DryRun, 1)}
	buffer := []byte("view")
	view := unsafe.String(&buffer[0], len(buffer))
	n := setStrings(reflect.ValueOf(f).Elem(), view)
	if n < 20 {
		t.Fatalf("only %d strings found: the test does not look where they are", n)
	}
	c := f.Clone()
	copy(buffer, "gone")
	checkStrings(t, reflect.ValueOf(c).Elem(), "Flow")
}

func setStrings(v reflect.Value, s string) (n int) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(s)
			n = 1
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += setStrings(v.Field(i), s)
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += setStrings(v.Index(i), s)
		}
	}
	return n
}

func checkStrings(t *testing.T, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() && v.String() != "view" {
			t.Errorf("%s is %q: still a view of the buffer", path, v.String())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			checkStrings(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkStrings(t, v.Index(i), path+"[]")
		}
	}
}

type calls []string

func (c *calls) Start(*flow.Flow)    { *c = append(*c, "start") }
func (c *calls) Progress(*flow.Flow) { *c = append(*c, "progress") }
func (c *calls) Done(*flow.Flow)     { *c = append(*c, "done") }

func TestObservers(t *testing.T) {
	var log calls
	o := flow.Observers{&log, &log}
	f := new(flow.Flow)
	o.Start(f)
	o.Progress(f)
	o.Done(f)
	want := calls{"start", "start", "progress", "progress", "done", "done"}
	if !reflect.DeepEqual(log, want) {
		t.Errorf("calls %v, want %v", log, want)
	}
}
