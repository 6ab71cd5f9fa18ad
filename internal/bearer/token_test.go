package bearer

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Token{
		jwt(`{"iss":"https://kubernetes","sub":"system:serviceaccount:shop:waypoint","aud":["istio-ca","x"],"iat":1000,"exp":1767225600}`): {
			Namespace: "shop", ServiceAccount: "waypoint", Audiences: []string{"istio-ca", "x"},
			Issued: time.Unix(1000, 0), Expires: time.Unix(1767225600, 0),
		},
		jwt(`{"sub":"alice","aud":"one","exp":2000.7}`):       {Audiences: []string{"one"}, Expires: time.Unix(2000, 0)},
		jwt(`{"sub":"system:serviceaccount:only"}`):           {},
		jwt(`{"sub":"system:serviceaccount::x"}`):             {},
		jwt(`{"sub":"system:serviceaccount:a:b:c"}`):          {},
		jwt(`{"sub":"System:serviceaccount:a:b","exp":1e18}`): {},
		jwt(`{"exp":"soon"}`):                                 {},
		jwt(`{"aud":{}}`):                                     {},
		jwt(`{"exp":-5}`):                                     {},
		jwt("no JSON"):                                        {},
		"a.!!.c":                                              {},
		"opaque":                                              {},
		strings.Repeat(".", 100):                              {},
	} {
		want.Text = text
		got := Parse(text)
		if got.Text != want.Text || got.Namespace != want.Namespace || got.ServiceAccount != want.ServiceAccount ||
			!slices.Equal(got.Audiences, want.Audiences) || !got.Issued.Equal(want.Issued) || !got.Expires.Equal(want.Expires) {
			t.Errorf("Parse(%q) = %+v, want %+v", text, got, want)
		}
	}
}

func TestDotsCostNothing(t *testing.T) {
	text := strings.Repeat(".", 1<<20)
	if n := testing.AllocsPerRun(10, func() { Parse(text) }); n > 0 {
		t.Errorf("a megabyte of dots is parsed with %v allocations", n)
	}
}

func TestRenewal(t *testing.T) {
	for claims, want := range map[string]int64{ // seconds since 1970; 0: never
		`{"iat":1000,"exp":2000}`:     1900,
		`{"iat":1000.5,"exp":2000.7}`: 1900,
		`{"exp":2000}`:                1940,
		`{"iat":3000,"exp":2000}`:     1940,
		`{"iat":1000}`:                0,
		`{"exp":1e300}`:               0,
	} {
		at := Parse(jwt(claims)).Renewal()
		if want == 0 && !at.IsZero() || want != 0 && at.Unix() != want {
			t.Errorf("%s is renewed at %v, want %d", claims, at, want)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for content, want := range map[string]string{"abc": "abc", " abc\n": "abc", "": "", "\n": "", "a b": "", "a\r\nb": ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if got.Text != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q is read as %q, %v", content, got.Text, err)
		}
	}
	if _, err := Read(path + ".missing"); err == nil || !strings.Contains(err.Error(), ".missing") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestDoubt(t *testing.T) {
	now := time.Unix(5000, 0)
	account := `"sub":"system:serviceaccount:shop:waypoint"`
	for claims, want := range map[string]string{
		`{"exp":5000}`: "it expired at 1970-01-01T01:23:20Z",
		`{` + account + `,"aud":["other","yet"]}`: `for the audience "other, yet", wanted is "ours"`,
		`{"aud":"ours"}`:                 "not that of a Kubernetes service account",
		`{` + account + `,"exp":5001}`:   "",
		`{` + account + `,"aud":"ours"}`: "",
	} {
		if got := Parse(jwt(claims)).Doubt("ours", now); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s is doubted as %q, want %q in it", claims, got, want)
		}
	}
	if got := Parse(jwt(`{`+account+`,"aud":"other"}`)).Doubt("", now); got != "" {
		t.Errorf("any audience will do, and yet: %q", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(jwt(`{"sub":"system:serviceaccount:a:b","aud":["x"],"exp":1}`))
	f.Add(jwt(`{"iat":1000,"exp":2000}`))
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		token := Parse(text)
		if token.Text != text {
			t.Error("the token changed")
		}
		if (token.Namespace == "") != (token.ServiceAccount == "") {
			t.Errorf("half an account: %q %q", token.Namespace, token.ServiceAccount)
		}
		if at := token.Renewal(); !at.IsZero() && at.After(token.Expires) {
			t.Errorf("%q is renewed after it expired", text)
		}
	})
}
