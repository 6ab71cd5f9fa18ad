package route

import (
	"fmt"
	"strings"
)

// Apply returns the path to send upstream, or to redirect to, for a request that
// was matched by m. A nil rewrite keeps the path.
//
// A replaced prefix is replaced by whole segments, with or without slashes at the
// ends of either (the table at HTTPPathModifier.replacePrefixMatch).
func (p *PathRewrite) Apply(path string, m *Match) string {
	switch {
	case p == nil || !strings.HasPrefix(path, "/"):
		return path
	case p.Full:
		return rooted(p.Value)
	}
	prefix := ""
	if m.Path.Kind == PathPrefix {
		prefix = strings.TrimSuffix(m.Path.Value, "/")
	}
	return rooted(strings.TrimSuffix(p.Value, "/") + strings.TrimPrefix(path, prefix))
}

func rooted(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}

// check refuses what would end the path, or the line that it stands in.
func (p *PathRewrite) check() error {
	if p == nil {
		return nil
	}
	for i := range len(p.Value) {
		if c := p.Value[i]; class[c] == invalid || class[c] == high || c == '?' {
			return fmt.Errorf("path: %q has a %q, which has to be escaped", p.Value, c)
		}
	}
	return nil
}
