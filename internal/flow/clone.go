package flow

import (
	"slices"
	"strings"
)

// Clone returns a copy that outlives f: strings of f may be views of buffers
// that are used again once the exchange is over. What f points to is immutable
// and shared.
func (f *Flow) Clone() *Flow {
	c := *f
	for _, s := range []*string{
		&c.Target, &c.SNI, &c.UpstreamFailure,
		&c.Method, &c.Path, &c.Authority, &c.Protocol, &c.UserAgent, &c.ForwardedFor, &c.RequestID,
		&c.RouteName, &c.RouteLabel, &c.GRPCStatus, &c.Details, &c.Policy, &c.Trace.State,
		&c.Peer.TrustDomain, &c.Peer.Namespace, &c.Peer.ServiceAccount,
	} {
		*s = strings.Clone(*s)
	}
	c.DryRun = slices.Clone(f.DryRun)
	for i := range c.DryRun {
		c.DryRun[i].Policy = strings.Clone(c.DryRun[i].Policy)
	}
	c.Reported = Reported{}
	return &c
}
