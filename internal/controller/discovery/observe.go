package discovery

import (
	"cmp"
	"time"

	"github.com/waypoint-mesh/waypoint/api"
)

// Client is one waypoint that is connected.
type Client struct {
	Gateway Gateway
	Name    string // of its pod, as it says itself
	Version string // of its program
	Addr    string
	Since   time.Time
}

// ClientStatus is how a waypoint is doing.
type ClientStatus struct {
	Client
	// Waiting is since when an answer to a push is due; zero: none is.
	Waiting    time.Time
	Pushes     uint64
	Resources  uint64 // sent, since it connected
	Rejections []Rejection
}

// Rejection says that a waypoint refuses a version of a resource. It serves on
// with the last good one, or with what fails closed.
type Rejection struct {
	Key     api.Key // the name is empty if the waypoint did not say which
	Version string
	Reason  string    // at most maxReason bytes
	At      time.Time // when the waypoint said so
}

// maxReason bounds what a waypoint can have us keep, and write into a status, for
// each resource, in bytes; maxRejections for how many resources.
const maxReason, maxRejections = 1 << 10, 1000

func compareRejections(a, b Rejection) int {
	return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Reason, b.Reason), a.At.Compare(b.At))
}

// alike reports whether two waypoints say the same.
func alike(a, b Rejection) bool {
	return a.Key == b.Key && a.Version == b.Version && a.Reason == b.Reason
}

// Push is what was sent to a waypoint at once.
type Push struct {
	Resources, Removed, Responses int
}

// Observer is told what happens, for metrics, logs and status. Its methods are
// called from many goroutines and must not block; they must not call the Server.
type Observer interface {
	// Updated: a change was taken, which touches so many resources of a
	// gateway's waypoints.
	Updated(g Gateway, resources int)
	Connected(c Client)
	Disconnected(c Client, err error)
	// Refused: somebody was turned away.
	Refused(addr string, err error)
	Pushed(c Client, p Push)
	// Answered: every response of the last push was, after so long. rejected are
	// those resources of it that were refused.
	Answered(c Client, after time.Duration, rejected []Rejection)
}

// nobody looks on.
type nobody struct{}

func (nobody) Updated(Gateway, int)                        {}
func (nobody) Connected(Client)                            {}
func (nobody) Disconnected(Client, error)                  {}
func (nobody) Refused(string, error)                       {}
func (nobody) Pushed(Client, Push)                         {}
func (nobody) Answered(Client, time.Duration, []Rejection) {}
