package control

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/report"
)

// Report is one run, and the schema of results/control.json.
type Report struct {
	Date     time.Time      `json:"date"`
	Machine  report.Machine `json:"machine"`
	Services int            `json:"services"`
	Routes   int            `json:"routes"`
	Figures  []Figure       `json:"figures"`
}

// Figure is one thing that was measured.
type Figure struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Goal is what it is to be at most; nil: there is none.
	Goal *float64 `json:"goal,omitempty"`
}

// Met reports whether the goal, if there is one, was reached.
func (f Figure) Met() bool { return f.Goal == nil || f.Value <= *f.Goal }

// goal is one with a limit, info one without.
func goal(what string, value float64, unit string, limit float64) Figure {
	return Figure{what, value, unit, &limit}
}

func info(what string, value float64, unit string) Figure {
	return Figure{What: what, Value: value, Unit: unit}
}

// WriteText writes a table for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Figures {
		verdict, limit := "", ""
		if f.Goal != nil {
			limit, verdict = fmt.Sprintf("goal <= %g", *f.Goal), "met"
			if !f.Met() {
				verdict = "missed"
			}
		}
		fmt.Fprintf(tw, "%s\t%.4g %s\t%s\t%s\n", f.What, f.Value, f.Unit, limit, verdict)
	}
	return tw.Flush()
}

// WriteJSON writes r to a file.
func (r *Report) WriteJSON(path string) error {
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(out, '\n'), 0o644)
}
