package authz

import (
	"errors"
	"strings"
)

// template is a path with operators (AuthorizationPolicy, Operation.paths):
// "{*}" stands for one segment, and a last "{**}" for any text, slashes too.
type template struct {
	// parts are the texts before each "{*}" and the one before "{**}" or the end.
	parts []string
	// rest is set if "{**}" follows the parts; tail is the text after it.
	rest bool
	tail string
}

func isTemplate(s string) bool { return strings.ContainsAny(s, "{}") }

var errTemplate = errors.New(`not a path template: it starts with "/", its operators are "{*}" and, as the last one, "{**}", each a whole segment, and it has no other "*", "{" or "}"`)

func parseTemplate(s string) (template, error) {
	var t template
	if !strings.HasPrefix(s, "/") {
		return t, errTemplate
	}
	var text strings.Builder
	for seg := range strings.SplitSeq(s[1:], "/") {
		text.WriteByte('/')
		switch {
		case t.rest && strings.HasPrefix(seg, "{"):
			return t, errTemplate
		case seg == "{*}":
			t.parts = append(t.parts, text.String())
			text.Reset()
		case seg == "{**}":
			t.parts = append(t.parts, text.String())
			text.Reset()
			t.rest = true
		case strings.ContainsAny(seg, "{}*"):
			return t, errTemplate
		default:
			text.WriteString(seg)
		}
	}
	if t.rest {
		t.tail = text.String()
	} else {
		t.parts = append(t.parts, text.String())
	}
	return t, nil
}

// match needs no backtracking: "{*}" ends at the next slash, and "{**}" is the
// last operator.
func (t *template) match(path string) bool {
	for i, part := range t.parts {
		if i > 0 {
			end := strings.IndexByte(path, '/')
			if end < 0 {
				end = len(path)
			}
			if end == 0 {
				return false // "{*}" is not empty
			}
			path = path[end:]
		}
		if !strings.HasPrefix(path, part) {
			return false
		}
		path = path[len(part):]
	}
	if t.rest {
		return strings.HasSuffix(path, t.tail)
	}
	return path == ""
}
