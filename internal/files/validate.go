package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Report is what Validate found.
type Report struct {
	Path     string    `json:"path"`
	Gateway  string    `json:"gateway,omitempty"` // as which was validated
	Files    int       `json:"files"`
	Objects  int       `json:"objects"`
	Rejected int       `json:"rejected"` // objects, and documents that cannot be told to be any
	Errors   int       `json:"errors"`   // problems that are no warnings
	Problems []Problem `json:"problems"`
}

// Validate reads a folder as Load does, and reports what is wrong with it. That
// it is not clear which gateway we are is a warning: routes and policies are then
// looked at for themselves. The error is that the path cannot be read.
func Validate(o Options) (*Report, error) {
	s := New(o, new(mesh.Store))
	if err := s.inventory.lookThrough(time.Now()); err != nil {
		return nil, err
	}
	gateway, err := s.chooseGateway()
	var unclear *GatewayError
	if errors.As(err, &unclear) {
		s.inventory.outside = append(s.inventory.outside, Problem{Fault: err.Error(), Warning: true})
	}
	s.start(gateway)
	s.apply()
	r := &Report{Path: o.Path, Files: s.stats.Files, Objects: s.stats.Objects, Problems: s.problems}
	if gateway != (translate.Key{}) {
		r.Gateway = name(gateway)
	}
	r.Rejected = len(s.refused)
	for _, c := range s.store.Load().Conflicts {
		r.Problems = append(r.Problems, conflict(c))
	}
	l := locator{inventory: s.inventory}
	for i, p := range r.Problems {
		if r.Problems[i] = l.locate(p); !p.Warning {
			r.Errors++
		}
	}
	slices.SortFunc(r.Problems, compareProblems)
	if r.Problems == nil {
		r.Problems = []Problem{}
	}
	return r, nil
}

// WriteText writes the report for people: a line for each problem, and a sum.
func (r *Report) WriteText(w io.Writer) error {
	for _, p := range r.Problems {
		severity := "error"
		if p.Warning {
			severity = "warning"
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", severity, p); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s in %s: %s, %s\n", r.Path, count(r.Objects, "object"), count(r.Files, "file"),
		count(r.Errors, "error"), count(len(r.Problems)-r.Errors, "warning"))
	return err
}

// count is "1 file" or "2 files".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
