package scenario

import (
	"errors"
	"fmt"

	"github.com/waypoint-mesh/waypoint/benchmarks/report"
)

// bounds are what our waypoint's deterministic figures may be in a short run, on
// any machine. They are for CI: times depend on the machine, these on the code.
// Each leaves room for what starting up and timers add to a short span; what goes
// beyond is a change that somebody made.
var bounds = map[string]map[report.Metric]float64{
	"serial":         {report.Allocs: 2},
	"32x1":           {report.Allocs: 2},
	"grpc-unary":     {report.Allocs: 5},
	"grpc-stream":    {report.Allocs: 1},
	"new-connection": {report.Allocs: 40},
	"idle-10k":       {report.StreamIdle: 6, report.StreamAfterRequest: 8}, // of 1,000: the tunnels weigh more
	"slow-reader":    {report.HeapStalled: 340, report.StreamStalled: 1024},
	"routes-5000":    {report.Objects: 60, report.Allocs: 2},
	"services-500":   {report.Objects: 120},
	"policies-1000":  {report.Objects: 120},
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
