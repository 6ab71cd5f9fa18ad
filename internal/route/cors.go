package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// IsPreflight reports whether a request asks for permission to be sent (Fetch
// standard, section 3.3.2): OPTIONS with Origin and Access-Control-Request-Method.
// A rule with CORS answers it itself.
func IsPreflight(method string, headers []Field) bool {
	return method == "OPTIONS" && header(headers, "origin") != "" && header(headers, "access-control-request-method") != ""
}

func header(headers []Field, name string) string {
	for i := range headers {
		if headers[i].Name == name {
			return headers[i].Value
		}
	}
	return ""
}

// AppendPreflight appends to dst the headers of the answer to a preflight, whose
// headers are given. They are none but Vary if the origin is not allowed, by
// which the browser refuses the request (HTTPCORSFilter.allowOrigins).
func (c *CORS) AppendPreflight(dst []Field, request []Field) []Field {
	origin := header(request, "origin")
	if !c.AllowsOrigin(origin) {
		return append(dst, Field{"vary", "Origin"})
	}
	dst = c.appendOrigin(dst, origin)
	dst = appendList(dst, "access-control-allow-methods", c.AllowMethods, c.AllowCredentials, header(request, "access-control-request-method"))
	dst = appendList(dst, "access-control-allow-headers", c.AllowHeaders, c.AllowCredentials, header(request, "access-control-request-headers"))
	if c.MaxAge > 0 {
		dst = append(dst, Field{"access-control-max-age", strconv.FormatInt(int64(c.MaxAge/time.Second), 10)})
	}
	return dst
}

// AppendResponse appends to dst, the headers of a response, what a request from
// origin is told by it. The CORS headers of the application itself are replaced:
// two answers to one question would be none.
func (c *CORS) AppendResponse(dst []Field, origin string) []Field {
	dst = slices.DeleteFunc(dst, func(f Field) bool { return strings.HasPrefix(f.Name, "access-control-") })
	if origin == "" || !c.AllowsOrigin(origin) {
		return append(dst, Field{"vary", "Origin"})
	}
	dst = c.appendOrigin(dst, origin)
	return appendList(dst, "access-control-expose-headers", c.ExposeHeaders, c.AllowCredentials, "")
}

// appendOrigin names the origin, unless any is allowed without credentials: with
// them, "*" would not mean any (Fetch standard, section 3.3.5).
func (c *CORS) appendOrigin(dst []Field, origin string) []Field {
	if !c.AllowCredentials && slices.Contains(c.AllowOrigins, "*") {
		return append(dst, Field{"access-control-allow-origin", "*"})
	}
	dst = append(dst, Field{"access-control-allow-origin", origin}, Field{"vary", "Origin"})
	if c.AllowCredentials {
		dst = append(dst, Field{"access-control-allow-credentials", "true"})
	}
	return dst
}

// appendList appends what is allowed. "*" is sent as such only without
// credentials; with them, what was asked for is allowed by name.
func appendList(dst []Field, name string, allowed []string, credentials bool, asked string) []Field {
	value := strings.Join(allowed, ", ")
	if slices.Contains(allowed, "*") {
		value = "*"
		if credentials {
			value = asked
		}
	}
	if value == "" {
		return dst
	}
	return append(dst, Field{name, value})
}

// AllowsOrigin reports whether origin, as a browser sent it, is allowed. Schemes
// and hosts have no case.
func (c *CORS) AllowsOrigin(origin string) bool {
	return slices.ContainsFunc(c.AllowOrigins, func(pattern string) bool { return matchOrigin(pattern, origin) })
}

// matchOrigin compares an origin with "*", "scheme://host[:port]", or one with a
// "*" in front of its host, which stands for one or more labels or for the whole
// host.
func matchOrigin(pattern, origin string) bool {
	if pattern == "*" {
		return origin != "" && origin != "null"
	}
	scheme, tail, wild := strings.Cut(pattern, "://*")
	if !wild {
		return strings.EqualFold(pattern, origin)
	}
	head := len(scheme) + len("://")
	if len(origin) <= head+len(tail) || !strings.EqualFold(origin[:head], scheme+"://") {
		return false
	}
	middle, end := origin[head:len(origin)-len(tail)], origin[len(origin)-len(tail):]
	return strings.EqualFold(end, tail) && !strings.ContainsAny(middle, "/:@")
}

func (c *CORS) check() error {
	for _, list := range [][]string{c.AllowOrigins, c.AllowMethods, c.AllowHeaders, c.ExposeHeaders} {
		for _, v := range list {
			if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == 0x7f || r == ',' }) {
				return fmt.Errorf("cors: %q is not one name without spaces", v)
			}
		}
	}
	return nil
}
