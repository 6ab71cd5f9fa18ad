package identity

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	want := ID{TrustDomain: "cluster.local", Namespace: "prod", ServiceAccount: "web.v1"}
	got, err := Parse("spiffe://cluster.local/ns/prod/sa/web.v1")
	if err != nil || got != want {
		t.Fatalf("Parse = %v, %v; want %v", got, err, want)
	}
	if got.String() != "spiffe://cluster.local/ns/prod/sa/web.v1" {
		t.Errorf("String = %q", got.String())
	}
	if (ID{}).String() != "" || !(ID{}).IsZero() {
		t.Errorf("the zero ID is not nobody: %q", ID{}.String())
	}
}

func TestParseRefuses(t *testing.T) {
	for _, uri := range []string{
		"",
		"spiffe://",
		"cluster.local/ns/a/sa/b",
		"https://cluster.local/ns/a/sa/b",
		"SPIFFE://cluster.local/ns/a/sa/b",
		"spiffe:/cluster.local/ns/a/sa/b",
		"spiffe:///ns/a/sa/b",
		"spiffe://user@cluster.local/ns/a/sa/b",
		"spiffe://cluster.local:443/ns/a/sa/b",
		"spiffe://Cluster.local/ns/a/sa/b",
		"spiffe://cluster.local/ns/a/sa/b?",
		"spiffe://cluster.local/ns/a/sa/b?x=y",
		"spiffe://cluster.local/ns/a/sa/b#",
		"spiffe://cluster.local/ns/a/sa/b#f",
		"spiffe://cluster.local/ns/a/sa/b/",
		"spiffe://cluster.local/ns/a/sa/b/c",
		"spiffe://cluster.local//ns/a/sa/b",
		"spiffe://cluster.local/ns//sa/b",
		"spiffe://cluster.local/ns/a/sa/",
		"spiffe://cluster.local/ns/a/sa",
		"spiffe://cluster.local/ns/../sa/b",
		"spiffe://cluster.local/ns/a/sa/.",
		"spiffe://cluster.local/sa/a/ns/b",
		"spiffe://cluster.local/NS/a/sa/b",
		"spiffe://cluster.local/ns/a/sa/b\x00.evil",
		"spiffe://cluster.local/ns/a%2f/sa/b",
		"spiffe://cluster.local/ns/a/sa/b%00",
		"spiffe://cluster.local/ns/a b/sa/b",
		"spiffe://cluster.local/ns/ä/sa/b",
		"spiffe://cluster.local/ns/" + strings.Repeat("n", 64) + "/sa/b",
		"spiffe://cluster.local/ns/a/sa/" + strings.Repeat("s", 254),
		"spiffe://" + strings.Repeat("t", 256) + "/ns/a/sa/b",
		"spiffe://cluster.local/ns/a/sa/" + strings.Repeat("s", 3000),
	} {
		if id, err := Parse(uri); err == nil || !id.IsZero() {
			t.Errorf("Parse(%.60q) = %v, %v; want nobody and an error", uri, id, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("spiffe://cluster.local/ns/a/sa/b")
	f.Add("spiffe://cluster.local:1/ns/a/sa/b?#")
	f.Fuzz(func(t *testing.T, uri string) {
		id, err := Parse(uri)
		if err == nil && id.String() != uri {
			t.Errorf("Parse(%q) = %v, which writes %q", uri, id, id.String())
		}
		if strings.ContainsAny(id.String(), "%?#@\x00") {
			t.Errorf("Parse(%q) kept a character that it must refuse: %v", uri, id)
		}
	})
}

func TestTrust(t *testing.T) {
	trust := Trust{Domain: "new", Aliases: []string{"old"}}
	web := func(domain string) ID { return ID{domain, "a", "web"} }
	for _, row := range []struct {
		got  ID
		want []ID
		ok   bool
	}{
		{web("new"), []ID{web("new")}, true},
		{web("old"), []ID{web("new")}, true},
		{web("new"), []ID{web("old")}, true},
		{web("new"), []ID{{"new", "a", "db"}, web("new")}, true},
		{web("far"), []ID{web("far")}, true}, // an endpoint in another domain, named in full
		{web("far"), []ID{web("new")}, false},
		{web("new"), []ID{web("far")}, false},
		{web("NEW"), []ID{web("new")}, false},
		{ID{"new", "b", "web"}, []ID{web("new")}, false},
		{web("new"), nil, false},
		{ID{}, []ID{{}}, false},
	} {
		err := trust.Check(row.got, row.want)
		if (err == nil) != row.ok {
			t.Errorf("Check(%v, %v) = %v, want ok %v", row.got, row.want, err, row.ok)
		}
	}
}
