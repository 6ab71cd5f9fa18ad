package files

import (
	"cmp"
	"fmt"
	"slices"
)

// Problem is something that is wrong with a file or an object in it.
type Problem struct {
	File    string `json:"file,omitempty"`   // with the path that was given; empty: it is not about a file
	Line    int    `json:"line,omitempty"`   // of the document, or of the field, counted from 1; 0: the whole file
	Object  string `json:"object,omitempty"` // "HTTPRoute default/reviews"; empty: it is not about one object
	Field   string `json:"field,omitempty"`  // "spec.rules[0].matches[1].path.value"; empty: the object as a whole
	Fault   string `json:"fault"`
	Cure    string `json:"cure,omitempty"`    // what to do about it; empty where the fault says it
	Warning bool   `json:"warning,omitempty"` // nothing is refused because of it
}

// String is the problem on one line, without its severity.
func (p Problem) String() string {
	s := p.reason()
	if p.Object != "" {
		s = p.Object + ": " + s
	}
	if p.File != "" {
		s = p.Where() + ": " + s
	}
	return s
}

// Where is "file:line", or only the file.
func (p Problem) Where() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// unplaced is the same problem wherever edits above it move it to.
func (p Problem) unplaced() Problem {
	p.Line = 0
	return p
}

// reason is what is wrong, without where.
func (p Problem) reason() string {
	s := p.Fault
	if p.Field != "" {
		s = p.Field + ": " + s
	}
	if p.Cure != "" {
		s += "; " + p.Cure
	}
	return s
}

// compareProblems orders by place, then errors first.
func compareProblems(a, b Problem) int {
	return cmp.Or(
		cmp.Compare(a.File, b.File),
		cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Object, b.Object),
		compareBool(a.Warning, b.Warning),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Fault, b.Fault),
		cmp.Compare(a.Cure, b.Cure),
	)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// problems are those of the file itself and of documents that cannot be parsed,
// but for those that are told with the object that was to be in the document.
func (m *manifest) problems(c *claims) (list []Problem) {
	if m.fault != nil {
		list = append(list, Problem{File: m.name, Fault: m.fault.Error(), Cure: m.kept()})
	}
	for _, d := range m.odd {
		if d.broken != nil && (m.kept() != "" || !slices.ContainsFunc(d.objects, c.counts)) {
			line, fault := d.faultLine()
			list = append(list, Problem{File: m.name, Line: line, Fault: fault, Cure: m.kept()})
		}
	}
	return list
}

func (m *manifest) kept() string {
	if n := len(m.missing); n > 0 {
		return "what the file had before stays in force: " + count(n, "object")
	}
	return ""
}

// reasons lists why objects, or documents that could not be told to be any, were
// refused.
func reasons(problems []Problem) map[string]string {
	reasons := make(map[string]string)
	for _, p := range problems {
		if p.Warning {
			continue
		}
		name := cmp.Or(p.Object, p.Where())
		if reasons[name] != "" {
			reasons[name] += "; "
		}
		reasons[name] += p.reason()
	}
	return reasons
}
