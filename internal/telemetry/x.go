package telemetry

// TraceStats counts spans.
type TraceStats struct{ Exported, Failed, Dropped uint64 }

// LogStats counts lines.
type LogStats struct{ Written, Dropped uint64 }

// LiveStats x.
type LiveStats struct {
	Watchers int
	Dropped  uint64
}
