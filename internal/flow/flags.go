package flow

// Flags says how a connection or request failed, in the letters that operators
// know from Envoy's %RESPONSE_FLAGS%. Zero: it did not.
type Flags uint32

// The flags. A refusal by policy has no letters in Envoy and so none here:
// dashboards and alerts that Istio ships expect "-" for it. It is told by the
// status and by the details. UAEX, which looks fit, is external authorisation's.
const (
	NoHealthyUpstream      Flags = 1 << iota // UH
	UpstreamFailure                          // UF: connecting failed
	UpstreamOverflow                         // UO: too many waiting
	NoRoute                                  // NR
	RetryLimit                               // URX
	NoCluster                                // NC: the route names an unknown service
	UpstreamReset                            // UR: the upstream reset the stream
	UpstreamClosed                           // UC: the upstream closed the connection
	UpstreamTimeout                          // UT
	UpstreamProtocolError                    // UPE
	DownstreamClosed                         // DC
	DownstreamProtocolErr                    // DPE
	LocalReset                               // LR
	Unauthorized                             // no letters: a policy refused
	StreamIdleTimeout                        // SI
	DurationTimeout                          // DT
	OverloadManager                          // OM: we shed load
	RequestHeadersTooLarge                   // RHTL: ours, Envoy has no letters for it
	ResponseTooLarge                         // RSTL: ours
)

// letters holds those of the flag 1<<i at i.
var letters = [...]string{
	"UH", "UF", "UO", "NR", "URX", "NC", "UR", "UC", "UT", "UPE", "DC", "DPE", "LR", "", "SI", "DT", "OM", "RHTL", "RSTL",
}

// String returns the letters joined by commas, or "-".
func (f Flags) String() string {
	for i, l := range letters {
		if f == 1<<i && l != "" {
			return l // by far the most frequent, and without an allocation
		}
	}
	return string(f.Append(nil))
}

// Append appends what String returns to b.
func (f Flags) Append(b []byte) []byte {
	start := len(b)
	for i, l := range letters {
		if f&(1<<i) == 0 || l == "" {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, l...)
	}
	if len(b) == start {
		b = append(b, '-')
	}
	return b
}
