package files

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxLocated is the size of a document up to which lines are looked for in it.
const maxLocated = 4 << 20

// locator finds the lines of fields. It parses documents once more, so it is for
// problems that somebody is told of.
type locator struct {
	*inventory
	doc   *document // the last one: problems are ordered by place
	root  *yaml.Node
	items map[string]*yaml.Node // of a list, by object
}

// locate puts a problem at the line of its field, or of what of that is there.
func (l *locator) locate(p Problem) Problem {
	m := l.manifests[p.File]
	if m == nil || p.Object == "" {
		return p
	}
	i := slices.IndexFunc(m.docs, func(d *document) bool { return d.line == p.Line })
	if i < 0 {
		return p
	}
	if l.parse(m.docs[i]); l.root == nil {
		return p
	}
	object := l.root
	if item := l.items[p.Object]; item != nil {
		object = item
	}
	p.Line += descend(object, steps(p.Field)).Line - 1
	return p
}

// parse makes d the last document. There is no root if no lines are to be found.
func (l *locator) parse(d *document) {
	if d == l.doc {
		return
	}
	l.doc, l.root, l.items = d, nil, nil
	var n yaml.Node
	if d.broken == nil && len(d.text) <= maxLocated && yaml.Unmarshal([]byte(d.text), &n) == nil && len(n.Content) > 0 {
		l.root = n.Content[0]
		l.items = listed(l.root)
	}
}

// listed finds the objects in a list by name; none if doc is no list.
func listed(doc *yaml.Node) map[string]*yaml.Node {
	items := child(doc, "items")
	if items == nil || items.Kind != yaml.SequenceNode || !strings.HasSuffix(text(child(doc, "kind")), "List") {
		return nil
	}
	found := make(map[string]*yaml.Node, len(items.Content))
	for _, item := range items.Content {
		kind, meta := text(child(item, "kind")), child(item, "metadata")
		name, namespace := text(child(meta, "name")), text(child(meta, "namespace"))
		if namespace == "" { // of the cluster, or of the namespace that is meant where none is named
			found[kind+" "+name], namespace = item, "default"
		}
		found[kind+" "+namespace+"/"+name] = item
	}
	return found
}

// steps takes a path such as "spec.rules[0].name" or "metadata.labels[a.b/c]" apart.
func steps(field string) (list []string) {
	for field != "" {
		end := strings.IndexAny(field, ".[")
		switch {
		case end < 0:
			return append(list, field)
		case end > 0:
			list = append(list, field[:end])
		case field[0] == '[':
			closing := strings.IndexByte(field, ']')
			if closing < 0 {
				return list
			}
			list = append(list, field[1:closing])
			end = closing
		}
		if field[end] == '[' {
			field = field[end:]
		} else {
			field = field[end+1:]
		}
	}
	return list
}

// descend follows the steps as far as they lead, to the node with the line that
// people look for: that of the last key.
func descend(n *yaml.Node, list []string) *yaml.Node {
	at := n
	for _, step := range list {
		next := child(n, step)
		if next == nil {
			break
		}
		at = next
		if m := dealiased(n); m.Kind == yaml.MappingNode {
			at = keyOf(m, step)
		}
		n = next
	}
	return at
}

func dealiased(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// child is an element of a mapping or sequence, nil if there is none.
func child(n *yaml.Node, name string) *yaml.Node {
	if n = dealiased(n); n == nil {
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
		return nil
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// keyOf is the key of a child.
func keyOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i]
		}
	}
	return n
}

func text(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}
