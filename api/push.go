package api

import (
	"fmt"
	"strconv"
	"strings"
)

// Push is where a response of delta discovery stands in what was pushed together: one change of the configuration may touch
// resources of several types, or more than one response should hold, and is to come into force as a whole. Servers write it
// into system_version_info, which means nothing to clients that do not know of it.
type Push struct {
	Version  uint64 // of the server's configuration; grows with every change
	Part, Of int    // "part 2 of 3", counted from 1
}

// Last reports whether nothing more belongs to the push.
func (p Push) Last() bool { return p.Part == p.Of }

// String is the form on the wire: "417 2/3".
func (p Push) String() string { return fmt.Sprintf("%d %d/%d", p.Version, p.Part, p.Of) }

// ParsePush reads what String wrote. It reports false for anything else, such as what other control planes write there: their
// responses stand alone.
func ParsePush(s string) (p Push, ok bool) {
	version, parts, ok := strings.Cut(s, " ")
	part, of, okParts := strings.Cut(parts, "/")
	if !ok || !okParts {
		return Push{}, false
	}
	var errs [3]error
	p.Version, errs[0] = strconv.ParseUint(version, 10, 64)
	p.Part, errs[1] = strconv.Atoi(part)
	p.Of, errs[2] = strconv.Atoi(of)
	if errs != [3]error{} || p.Part < 1 || p.Part > p.Of {
		return Push{}, false
	}
	return p, true
}
