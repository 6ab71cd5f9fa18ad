package route

import (
	"fmt"
	"slices"
	"strings"
)

func (h *HeaderModifier) check() error {
	for _, f := range slices.Concat(h.Set, h.Add) {
		if err := checkName(f.Name); err != nil {
			return err
		}
		if strings.ContainsAny(f.Value, "\r\n\x00") {
			return fmt.Errorf("header %s: the value has a line end or NUL", f.Name)
		}
	}
	for _, name := range h.Remove {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// checkName takes a token (RFC 9110 section 5.6.2) in lower case.
func checkName(name string) error {
	const marks = "!#$%&'*+-.^_`|~"
	if name == "" || strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	}) {
		return fmt.Errorf("header %q: not a header name in lower case", name)
	}
	return nil
}

// String says in words what the filter does.
func (h *HeaderModifier) String() string {
	var parts []string
	for _, f := range h.Set {
		parts = append(parts, "set "+f.Name+": "+f.Value)
	}
	for _, f := range h.Add {
		parts = append(parts, "add "+f.Name+": "+f.Value)
	}
	for _, name := range h.Remove {
		parts = append(parts, "remove "+name)
	}
	of := "request headers: "
	if h.Response {
		of = "response headers: "
	}
	return of + strings.Join(parts, ", ")
}
