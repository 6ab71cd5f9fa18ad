package translate

import (
	"cmp"
	"fmt"
	"strconv"
)

// Key names one Kubernetes object. Our kinds differ in name, so the API group is not part of it.
type Key struct {
	Kind      string // "HTTPRoute"
	Namespace string // empty for cluster-scoped kinds
	Name      string
}

// String is the key for people: "HTTPRoute default/reviews".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Severity tells what a problem does to its object.
type Severity uint8

const (
	// Warning means that the object holds; what the field says does nothing here.
	Warning Severity = iota
	// Error means that the object, or the part that the field belongs to, was refused and fails closed.
	Error
)

// String is "warning" or "error".
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Problem is one thing that is wrong with one object.
type Problem struct {
	Object   Key
	Field    string // "spec.rules[0].matches[1].path.value"; empty: the object as a whole
	Fault    string // `must start with "/", got "x"`
	Cure     string // what to write instead; empty where the fault says it
	Severity Severity
}

// String is the problem on one line, without the severity.
func (p Problem) String() string { return p.Object.String() + ": " + p.text() }

// text is the problem without its object.
func (p Problem) text() string {
	if p.Field != "" {
		return p.Field + ": " + p.because()
	}
	return p.because()
}

// because is the fault and its cure.
func (p Problem) because() string {
	if p.Cure != "" {
		return p.Fault + "; " + p.Cure
	}
	return p.Fault
}

// compareProblems orders by object, errors first, then by field and text.
func compareProblems(a, b Problem) int {
	return cmp.Or(compareKeys(a.Object, b.Object), cmp.Compare(b.Severity, a.Severity),
		cmp.Compare(a.Field, b.Field), cmp.Compare(a.Fault, b.Fault), cmp.Compare(a.Cure, b.Cure))
}

// path is where in an object we are: "spec.rules[0]".
type path string

func (p path) at(name string) path {
	if p == "" {
		return path(name)
	}
	return p + "." + path(name)
}

func (p path) index(i int) path { return p + path("["+strconv.Itoa(i)+"]") }

// key steps into a map: spec.ports[http].
func (p path) key(k string) path { return p + path("["+k+"]") }

// report collects the problems of one object.
type report struct {
	object   Key
	problems []Problem
}

func (r *report) errorf(at path, format string, args ...any) {
	r.add(Problem{r.object, string(at), fmt.Sprintf(format, args...), "", Error})
}

func (r *report) warnf(at path, format string, args ...any) {
	r.add(Problem{r.object, string(at), fmt.Sprintf(format, args...), "", Warning})
}

func (r *report) add(p Problem) { r.problems = append(r.problems, p) }
