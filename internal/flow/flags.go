package flow

import "strings"

// Flags says how a connection or request failed, in the letters that operators
// know from Envoy's %RESPONSE_FLAGS%. Zero: it did not.
type Flags uint32

// The flags.
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
	Unauthorized                             // UAEX is external auth; RBAC denials carry none in Envoy: see String
	StreamIdleTimeout                        // SI
	DurationTimeout                          // DT
	OverloadManager                          // OM: we shed load
	RequestHeadersTooLarge                   // RHTL: ours, Envoy has no letters for it
	ResponseTooLarge                         // RSTL: ours
)

var letters = [...]string{"UH", "UF", "UO", "NR", "URX", "NC", "UR", "UC", "UT", "UPE", "DC", "DPE", "LR", "", "SI", "DT", "OM", "RHTL", "RSTL"}

// String returns the letters joined by commas, or "-".
func (f Flags) String() string {
	if f&(f-1) == 0 { // at most one: no allocation
		for i, l := range letters {
			if f == 1<<i && l != "" {
				return l
			}
		}
		return "-"
	}
	var on []string
	for i, l := range letters {
		if f&(1<<i) != 0 && l != "" {
			on = append(on, l)
		}
	}
	return strings.Join(on, ",")
}
