package scenario

import (
	"errors"
	"fmt"

	"github.com/waypoint-mesh/waypoint/benchmarks/report"
)

// bounds are what our waypoint's deterministic figures may be in a short run, on
// any machine. They are for CI: times depend on the machine, these on the code.
// Each has room above what was measured, for what starting up and idle timers
// allocate in a short span; an increase beyond it is a change that somebody made.
var bounds = map[string]map[report.Metric]float64{
	"serial":        {report.Allocs: 12},
	"32x1":          {report.Allocs: 12},
	"grpc-unary":    {report.Allocs: 16},
	"grpc-stream":   {report.Allocs: 2},
	"idle-10k":      {report.StreamIdle: 4, report.StreamAfterRequest: 6},
	"slow-reader":   {report.StreamStalled: 2560},
	"routes-5000":   {report.Objects: 60},
	"services-500":  {report.Objects: 150},
	"policies-1000": {report.Objects: 120},
}

// CheckBounds returns which figures of a round of our waypoint exceed their bounds.
func (s Scenario) CheckBounds(r report.Round) error {
	var errs []error
	for m, limit := range bounds[s.Name] {
		if v, ok := r.Values[m]; !ok {
			errs = append(errs, fmt.Errorf("%s: %v was not measured", s.Name, m))
		} else if v > limit {
			errs = append(errs, fmt.Errorf("%s: %v is %.2f, at most %.0f is allowed", s.Name, m, v, limit))
		}
	}
	return errors.Join(errs...)
}
