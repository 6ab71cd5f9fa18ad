package certs

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

// token is a bearer token, and what it says of itself if it is a JWT of a
// Kubernetes service account.
type token struct {
	text           string
	namespace      string // of the service account; empty: not known
	serviceAccount string
	audiences      []string  // empty: not known
	expires        time.Time // zero: not known
}

// readToken reads a file that holds a token and nothing else.
func readToken(path string) (token, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return token{}, fmt.Errorf("the token for the CA: %w", err)
	}
	content = bytes.TrimSpace(content)
	if len(content) == 0 || bytes.ContainsAny(content, " \t\r\n") {
		return token{}, fmt.Errorf("the token for the CA: %s does not hold one token and nothing else", path)
	}
	return parseToken(string(content)), nil
}

// parseToken looks into a JWT (RFC 7519, section 4.1), without checking it: that is
// for the CA. Anything else is a token of which nothing is known.
func parseToken(text string) token {
	t := token{text: text}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return t
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return t
	}
	var claims struct {
		Subject  string   `json:"sub"`
		Audience audience `json:"aud"`
		Expires  float64  `json:"exp"` // seconds since 1970
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return t
	}
	// "system:serviceaccount:NAMESPACE:NAME", as the API server names it.
	if who := strings.Split(claims.Subject, ":"); len(who) == 4 && who[0] == "system" && who[1] == "serviceaccount" {
		t.namespace, t.serviceAccount = who[2], who[3]
	}
	t.audiences = claims.Audience
	if claims.Expires >= 1 && claims.Expires < 1e11 { // a time of our days
		t.expires = time.Unix(int64(claims.Expires), 0)
	}
	return t
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

// doubt says what is likely to be wrong with a token that the CA did not accept.
func (t token) doubt() string {
	switch {
	case !t.expires.IsZero() && time.Now().After(t.expires):
		return fmt.Sprintf("it expired at %s, and whoever writes the file has to renew it", t.expires.Format(time.RFC3339))
	case len(t.audiences) > 0 && !slices.Contains(t.audiences, caAudience):
		return fmt.Sprintf("it is for the audience %q, and Istio's CA wants %q", t.audiences, caAudience)
	case t.serviceAccount == "":
		return "it is not that of a Kubernetes service account"
	}
	return "another cluster issued it?"
}

// caAudience is whom a token has to be for that istiod takes.
const caAudience = "istio-ca"
