package status

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Refusal says that waypoints of a Gateway refuse what was made of an object.
type Refusal struct {
	Gateway discovery.Gateway
	Reason  string
}

func listRefusals(refusals []Refusal) string {
	var list []string
	for _, r := range refusals {
		list = append(list, fmt.Sprintf("a waypoint of %s refuses it: %s", r.Gateway, r.Reason))
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), "; ")
}

// all is what every Gateway finds wrong, each thing once.
func all(r feed.Report) []translate.Problem {
	list := slices.Clone(r.Faults)
	for _, problems := range r.By {
		list = append(list, problems...)
	}
	slices.SortFunc(list, func(a, b translate.Problem) int {
		return strings.Compare(a.Field+"\x00"+a.Fault+a.Cure, b.Field+"\x00"+b.Fault+b.Cure)
	})
	return slices.Compact(list)
}

// Remarks is all that is wrong with an object or does nothing in it, for those who
// write its status elsewhere; empty: nothing is.
func Remarks(r feed.Report) string {
	problems := all(r)
	return clip(strings.Join(slices.DeleteFunc([]string{texts(problems, translate.Error), texts(problems, translate.Warning)},
		func(s string) bool { return s == "" }), "; "))
}

// texts joins problems of one severity.
func texts(problems []translate.Problem, severity translate.Severity) string {
	var list []string
	for _, p := range problems {
		if p.Severity == severity {
			list = append(list, describe(p))
		}
	}
	return strings.Join(list, "; ")
}

// describe leaves out the object, which is the one that the status stands on.
func describe(p translate.Problem) string {
	_, text, _ := strings.Cut(p.String(), ": ")
	return text
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// sentence begins with a capital letter, unless it begins with the name of a field.
func sentence(s string) string {
	if strings.HasPrefix(s, "spec") || strings.HasPrefix(s, "metadata") {
		return clip(s)
	}
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return clip(string(unicode.ToUpper(r)) + s[n:])
}

// clip keeps a message within what is read in a terminal; the API allows 32768
// bytes.
func clip(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " ..."
}
