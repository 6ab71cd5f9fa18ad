package bearer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Token is a bearer token with what it claims, if it is a JWT. What it does not
// claim is empty.
type Token struct {
	Text string
	// Namespace and ServiceAccount are of the subject, if that is an account of
	// Kubernetes.
	Namespace, ServiceAccount string
	Audiences                 []string
	Issued, Expires           time.Time
}

// Read reads a file that holds a token and nothing else.
func Read(path string) (Token, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Token{}, err
	}
	content = bytes.TrimSpace(content)
	if len(content) == 0 || bytes.ContainsAny(content, " \t\r\n") {
		return Token{}, fmt.Errorf("%s does not hold one token and nothing else", path)
	}
	return Parse(string(content)), nil
}

// Parse looks into a JWT, RFC 7519 section 4.1. Anything else is a token that
// claims nothing.
func Parse(text string) Token {
	t := Token{Text: text}
	// Counted before it is taken apart: a megabyte of dots is a million parts.
	if strings.Count(text, ".") != 2 {
		return t
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1])
	if err != nil {
		return t
	}
	var claims struct {
		Subject  string   `json:"sub"`
		Audience audience `json:"aud"`
		Issued   float64  `json:"iat"`
		Expires  float64  `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return t
	}
	t.Namespace, t.ServiceAccount, _ = Account(claims.Subject)
	t.Audiences = claims.Audience
	t.Issued, t.Expires = seconds(claims.Issued), seconds(claims.Expires)
	return t
}

// Account takes a user name of Kubernetes apart,
// "system:serviceaccount:NAMESPACE:NAME"; false if it is not that of an account.
func Account(user string) (namespace, name string, ok bool) {
	rest, isAccount := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, name, full := strings.Cut(rest, ":")
	if !isAccount || !full || namespace == "" || name == "" || strings.Contains(name, ":") {
		return "", "", false
	}
	return namespace, name, true
}

// audience is one string or several, RFC 7519 section 4.1.3.
type audience []string

func (a *audience) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// seconds since 1970; zero for what is no time of our days.
func seconds(n float64) time.Time {
	if n < 1 || n > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

// Renewal is when a newer token should be shown: with a tenth of the life left.
// kubelet writes one when a fifth is left. Zero: never.
func (t Token) Renewal() time.Time { return Renewal(t.Issued, t.Expires) }

// Renewal of anything that is good from one time to another; a minute before the
// end if the beginning is not known. Zero if the end is not.
func Renewal(from, to time.Time) time.Time {
	switch {
	case to.IsZero():
		return time.Time{}
	case from.IsZero() || from.After(to):
		return to.Add(-time.Minute)
	}
	return to.Add(-to.Sub(from) / 10)
}

// Doubt says what is likely wrong with a token that was not accepted by one who
// wants it to be for an audience; "" if the token does not show it. An empty
// audience is any.
func (t Token) Doubt(audience string, now time.Time) string {
	switch {
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return fmt.Sprintf("it expired at %s, and whoever writes the file has to renew it", t.Expires.UTC().Format(time.RFC3339))
	case audience != "" && len(t.Audiences) > 0 && !slices.Contains(t.Audiences, audience):
		return fmt.Sprintf("it is for the audience %q, wanted is %q", strings.Join(t.Audiences, ", "), audience)
	case t.ServiceAccount == "":
		return "it is not that of a Kubernetes service account"
	}
	return ""
}
