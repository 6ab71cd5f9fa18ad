package xds

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// token is a bearer token, and what it says of its own life if it is a JWT.
type token struct {
	text            string
	issued, expires time.Time // zero: not known
}

// readToken reads a file that holds a token and nothing else.
func readToken(path string) (token, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return token{}, fmt.Errorf("the token for the controller (--token): %w", err)
	}
	content = bytes.TrimSpace(content)
	if len(content) == 0 || bytes.ContainsAny(content, " \t\r\n") {
		return token{}, fmt.Errorf("the token for the controller (--token): %s does not hold one token and nothing else", path)
	}
	return parseToken(string(content)), nil
}

// parseToken looks into a JWT (RFC 7519, section 4.1), without checking it: that is
// for the controller. Anything else is a token of which nothing is known.
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
		Issued  float64 `json:"iat"`
		Expires float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return t
	}
	t.issued, t.expires = seconds(claims.Issued), seconds(claims.Expires)
	return t
}

// seconds since 1970; zero for what is no time of our days.
func seconds(n float64) time.Time {
	if n < 1 || n > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

// renewal is when a newer token should be used: with a tenth of the life left.
// kubelet writes one when a fifth is left. Zero: never.
func (t token) renewal() time.Time {
	switch {
	case t.expires.IsZero():
		return time.Time{}
	case t.issued.IsZero() || t.issued.After(t.expires):
		return t.expires.Add(-time.Minute)
	}
	return t.expires.Add(-t.expires.Sub(t.issued) / 10)
}
