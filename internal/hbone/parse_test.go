package hbone

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]string{
		"10.1.2.3:80":                       "10.1.2.3:80",
		"[2001:DB8::1]:65535":               "[2001:db8::1]:65535",
		"[::ffff:10.1.2.3]:80":              "10.1.2.3:80",
		"reviews.prod.svc.cluster.local:1":  "reviews.prod.svc.cluster.local:1",
		"Reviews.Prod.SVC.cluster.local:80": "reviews.prod.svc.cluster.local:80",
		"my_service:8080":                   "my_service:8080",
		"1e100.net:443":                     "1e100.net:443",
		"db.example.:5432":                  "db.example:5432",
	} {
		got, err := ParseTarget(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseTarget(%q) = %v, %v; want %s", in, got, err, want)
		}
		if got.Addr.IsValid() == (got.Host != "") {
			t.Errorf("ParseTarget(%q) = %+v: want an address or a host", in, got)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, in := range []string{
		"", ":", ":80", "10.1.2.3", "10.1.2.3:", "10.1.2.3:0", "10.1.2.3:080", "10.1.2.3:+80", "10.1.2.3:65536",
		"10.1.2.3:8x", "10.1.2.3 :80", "10.1.2:80", "010.1.2.3:80", "1.2.3.4.5:80", "2130706433:80",
		"::1:80", "[::1]", "[::1:80", "::1]:80", "[10.1.2.3]:80", "[fe80::1%eth0]:80", "[]:80", "[x]:80", "[[::1]]:80",
		"host", "host..:80", "10.1.2.3.:80", ".:80", ".host:80", "a..b:80", "user@host:80", "host/:80", "ho\x00st:80", "höst:80", "*.x:80", "-:x",
		strings.Repeat("a", 64) + ".x:80", strings.Repeat("a.", 130) + "x:80",
		"http://host:80",
	} {
		if got, err := ParseTarget(in); err == nil {
			t.Errorf("ParseTarget(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"10.1.2.3:80", "[2001:db8::1]:80", "[::ffff:1.2.3.4]:80", "A.b:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		target, err := ParseTarget(in)
		if err != nil {
			return
		}
		again, err := ParseTarget(target.String())
		if err != nil || again != target {
			t.Errorf("%q reads as %+v, and that as %+v, %v", in, target, again, err)
		}
		if target.Addr.Is4In6() || target.Port == 0 {
			t.Errorf("%q reads as %+v, which is not canonical", in, target)
		}
	})
}

func TestBaggage(t *testing.T) {
	full := Baggage{
		Cluster: "c", Namespace: "n", WorkloadType: "pod", Workload: "w", Service: "s", Revision: "r", Region: "e", Zone: "z",
	}
	text := "k8s.cluster.name=c,k8s.namespace.name=n,k8s.pod.name=w,service.name=s,service.version=r,cloud.region=e,cloud.availability_zone=z"
	if got := full.String(); got != text {
		t.Errorf("String = %s, want %s", got, text)
	}
	for in, want := range map[string]Baggage{
		text:                                full,
		"":                                  {},
		"k8s.deployment.name=d":             {WorkloadType: "deployment", Workload: "d"},
		"k8s.cronjob.name=d,k8s.job.name=e": {WorkloadType: "job", Workload: "e"},
		"service.name=a,service.name=b":     {Service: "b"},
		"service.name=a,service.name=":      {Service: "a"},
		"service.name=a=b":                  {Service: "a"},
		" service.name=a,service.name =b":   {},
		"service.name=a;p=q":                {Service: "a;p"},
		"k8s.statefulset.name=x,,=,=x,service.version": {},
	} {
		if got := ParseBaggage(in); got != want {
			t.Errorf("ParseBaggage(%q) = %+v, want %+v", in, got, want)
		}
	}
}

func FuzzParseBaggage(f *testing.F) {
	f.Add("k8s.cluster.name=c,k8s.pod.name=w,service.name=s")
	f.Fuzz(func(t *testing.T, in string) {
		b := ParseBaggage(in)
		if again := ParseBaggage(b.String()); again != b {
			t.Errorf("%q reads as %+v, and that as %+v", in, b, again)
		}
	})
}

func TestForwarded(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("10.1.2.3:4567"), netip.MustParseAddrPort("[2001:db8::1]:4567")
	for in, want := range map[string]Forwarded{
		`for="10.1.2.3:4567"`:                            {For: v4},
		`for="10.1.2.3:4567";host=a.b.svc.cluster.local`: {For: v4, Host: "a.b.svc.cluster.local"},
		`for="[2001:db8::1]:4567";host=x`:                {For: v6, Host: "x"},
		`For=10.1.2.3:4567; Host="x";proto=https`:        {For: v4, Host: "x"},
		`host=x`:                       {Host: "x"},
		`for="[::ffff:10.1.2.3]:4567"`: {For: v4},
		`for=_hidden;host=x, for="[2001:db8::1]:1"`: {Host: "x"},
		`for="10.1.2.3:4567`:                        {},
		`for="10.1.2.3:4567" host=x`:                {For: v4},
		``:                                          {},
		`=;=`:                                       {},
	} {
		if got := ParseForwarded(in); got != want {
			t.Errorf("ParseForwarded(%q) = %+v, want %+v", in, got, want)
		}
	}
	if got := (Forwarded{For: v6, Host: "x"}).String(); got != `for="[2001:db8::1]:4567";host=x` {
		t.Errorf("String = %s", got)
	}
}

func FuzzParseForwarded(f *testing.F) {
	f.Add(`for="10.1.2.3:4567";host=a.b`)
	f.Add(`for=_x ; host="y" , for=z`)
	f.Fuzz(func(t *testing.T, in string) {
		got := ParseForwarded(in)
		if got.For.IsValid() && ParseForwarded(got.String()).For != got.For {
			t.Errorf("%q reads as %+v, which writes %q", in, got, got.String())
		}
	})
}
