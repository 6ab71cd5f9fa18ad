package files

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// unparsed is a field that no kind has. It makes what was salvaged be refused,
// with targets that count as unreadable unless some were found.
const unparsed = "unparsed"

// salvage finds out which object a document was meant to be that cannot be
// parsed, from the lines before the fault. A policy that is lost without a trace
// opens what it closed, so it has to be known which one it was. It returns nil
// if that cannot be told, or is an object that may be missing.
func salvage(text string, cause error) *translate.Rejected {
	object, rest := parseHead(text, cause)
	if object == nil {
		return nil
	}
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		spec = make(map[string]any)
		object["spec"] = spec
	}
	spec[unparsed] = true
	if strings.Contains(rest, "targetRef") { // perhaps not all of them are in the part that was read
		delete(spec, "targetRef")
		delete(spec, "targetRefs")
	}
	js, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	var r *translate.Rejected
	if _, err = translate.Decode(js); !errors.As(err, &r) {
		return nil
	}
	r.Problems = []translate.Problem{{Object: r.Key, Fault: cause.Error(), Severity: translate.Error}}
	return r
}

// lineNumber finds where a parser of YAML saw a fault, which may be some lines
// after where it is.
var lineNumber = regexp.MustCompile(`\bline (\d+)\b`)

// tries is how many lines before the line of a fault may be at fault.
const tries = 20

// parseHead parses as many lines as can be parsed before a fault.
func parseHead(text string, cause error) (object map[string]any, rest string) {
	at := lineNumber.FindStringSubmatch(cause.Error())
	if at == nil {
		return nil, ""
	}
	n, _ := strconv.Atoi(at[1]) // digits; out of range it is the largest int, which will do
	lines := strings.SplitAfterN(text, "\n", min(n, len(text))+1)
	first := min(n, len(lines))
	for end := first; end > max(0, first-tries); end-- {
		head := strings.Join(lines[:end], "")
		if yaml.Unmarshal([]byte(head), &object) == nil && object["kind"] != nil {
			return object, text[len(head):]
		}
		object = nil
	}
	return nil, ""
}
