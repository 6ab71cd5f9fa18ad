package telemetry

type LiveStats struct {
	Watchers int
	Dropped  uint64
}

// TraceStats x
type TraceStats struct{ Exported, Failed, Dropped uint64 }
