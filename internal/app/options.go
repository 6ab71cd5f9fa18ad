package app

import (
	"io"
	"log/slog"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

// Options is everything that a waypoint can be told. Durations and numbers mean
// what docs/flags.md says of the flag of the same name.
type Options struct {
	Version, Commit string
	Log             *slog.Logger
	Level           *slog.LevelVar // of Log; the admin page changes it

	Config string // folder or file of manifests
	// Instead of Config: a controller, the files with our token and its CA, and
	// the folder that configuration is kept in.
	XDS, Token, XDSRoot, StateDir string
	Gateway                       string // "namespace/name"; empty: the only one in Config

	// One source of certificates: files, Istio's CA if CA is not empty, or the
	// SPIFFE Workload API if WorkloadAPI is not.
	Cert, Key, Root     string
	CA, CARoot, CAToken string
	ClusterID           string
	CertTTL             time.Duration
	WorkloadAPI         string      // as certs.WorkloadAddr has it
	Identity            identity.ID // who the CA or the Workload API is to say we are; nobody: their choice
	Trust               identity.Trust

	Listen, Status, Metrics, Admin string

	DrainDelay, DrainTimeout time.Duration

	AccessLog       string // "off", "text" or "json"
	AccessLogOutput io.Writer
	OTLPEndpoint    string
	TraceSampling   float64 // percent

	MaxConnections   int // 0: as many as the memory limit of the Go runtime allows
	MaxConnectionAge time.Duration
	HandshakeTimeout time.Duration
	ConnectTimeout   time.Duration
	IdleTimeout      time.Duration
	TCPIdleTimeout   time.Duration
	DetectTimeout    time.Duration
	MaxHeaderBytes   int
	MaxHeaders       int

	ClientHeaders bool
	TrustedHops   []identity.ID
	TaskMode      task.Mode
	Node          string
}

// idleOrNever turns our "0: never" into that of l7's limits.
func idleOrNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}
