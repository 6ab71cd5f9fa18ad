package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/explain"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// StatusHandler is the status port: what probes of Kubernetes ask.
func StatusHandler(r *Readiness) http.Handler {
	return mux(withIndex("Waypoint: status", statusPages(r)))
}

func statusPages(r *Readiness) []page {
	return []page{
		{"/healthz/ready", get, "/healthz/ready", "200 if this waypoint should get traffic, else 503 and why not", r},
		{"/healthz/live", get, "/healthz/live", "200 as long as the process answers at all", http.HandlerFunc(live)},
	}
}

// live says nothing of the data path on purpose: a restart heals only what is
// stuck altogether, and would take healthy connections with it.
func live(w http.ResponseWriter, _ *http.Request) { answer(w, "live\n") }

// MetricsHandler is the metrics port. Prometheus asks for /metrics, and for
// /stats/prometheus where it is configured for Istio.
func MetricsHandler(metrics http.Handler) http.Handler {
	return mux(withIndex("Waypoint: metrics", metricsPages(metrics)))
}

func metricsPages(metrics http.Handler) []page {
	return []page{
		{"/metrics", get, "/metrics", "all metrics, in the formats of Prometheus", metrics},
		{"/stats/prometheus", get, "/stats/prometheus", "the same, where Istio has it", metrics},
	}
}

// Options of [Handler]. What is nil has no page.
type Options struct {
	Store *mesh.Store
	Level *slog.LevelVar
	// Watch calls write for each finished flow that matches, until ctx ends, and
	// once without a line when it has begun. Empty strings match everything.
	Watch   func(ctx context.Context, service, identity string, write func(line []byte) error) error
	Metrics http.Handler
	Ready   *Readiness
}

// Handler is the admin port.
func Handler(o Options) http.Handler {
	return guard(mux(withIndex("Waypoint: admin", adminPages(o))))
}

func withIndex(title string, pages []page) []page {
	return append(pages, page{"/{$}", get, "/", "this page", index(title, pages)})
}

func adminPages(o Options) (pages []page) {
	if o.Store != nil {
		pages = append(pages, page{
			"/snapshot", get, "/snapshot[?service=NAMESPACE/NAME]",
			"the configuration in force, as JSON: services, endpoints, routes, workloads, and what was rejected and why", snapshot(o.Store),
		}, page{
			"/explain", post, "/explain",
			"what would become of a request, step by step, as JSON; `waypoint explain --admin` asks here", explanation(o.Store),
		})
	}
	if o.Watch != nil {
		pages = append(pages, page{
			"/live", get, "/live[?service=NAMESPACE/NAME][&identity=NAMESPACE/SERVICEACCOUNT]",
			"requests and connections as they end, a line of JSON each, until you go", watch(o.Watch),
		})
	}
	if o.Level != nil {
		pages = append(pages, page{
			"/logging",
			[]string{http.MethodGet, http.MethodPost, http.MethodPut},
			"/logging[?level=debug|info|warn|error]",
			"the level of this proxy's own log; POST or PUT with a level changes it", logging(o.Level),
		})
	}
	if o.Metrics != nil {
		pages = append(pages, metricsPages(o.Metrics)...)
	}
	if o.Ready != nil {
		pages = append(pages, statusPages(o.Ready)...)
	}
	return append(pages, profiles()...)
}

func profiles() []page {
	both := []string{http.MethodGet, http.MethodPost}
	return []page{
		{"/debug/pprof/", get, "/debug/pprof/", "profiles of the process, for `go tool pprof`", http.HandlerFunc(pprof.Index)},
		{"/debug/pprof/profile", get, "/debug/pprof/profile[?seconds=30]", "CPU profile", http.HandlerFunc(pprof.Profile)},
		{"/debug/pprof/trace", get, "/debug/pprof/trace[?seconds=1]", "execution trace, for `go tool trace`", http.HandlerFunc(pprof.Trace)},
		{"/debug/pprof/symbol", both, "/debug/pprof/symbol", "function names for `go tool pprof`", http.HandlerFunc(pprof.Symbol)},
		{"/debug/pprof/cmdline", get, "/debug/pprof/cmdline", "the command line", http.HandlerFunc(pprof.Cmdline)},
	}
}

// maxQuestion is the largest body that /explain reads.
const maxQuestion = 64 << 10

func explanation(store *mesh.Store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
		if err != nil {
			failJSON(w, http.StatusRequestEntityTooLarge, err)
			return
		}
		question, err := explain.Parse(body)
		if err != nil {
			failJSON(w, http.StatusBadRequest, err)
			return
		}
		answer, err := explain.Explain(store.Load(), question)
		if err != nil {
			failJSON(w, http.StatusBadRequest, err)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

// watchWrite is how long one line may take to leave.
const watchWrite = 10 * time.Second

func watch(watch func(context.Context, string, string, func([]byte) error) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := stream{w, http.NewResponseController(w)}
		query := r.URL.Query()
		w.Header().Set("Content-Type", "application/x-ndjson")
		if err := watch(r.Context(), query.Get("service"), query.Get("identity"), out.write); err != nil {
			// Nothing was written yet, or nobody is there to read this.
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

// stream is a response without an end.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// write sends a line now. An empty one sends the head of the response.
func (s stream) write(line []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(watchWrite)); err != nil {
		return err
	}
	if _, err := s.w.Write(line); err != nil {
		return err
	}
	return s.control.Flush()
}

func logging(level *slog.LevelVar) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxQuestion)
		wanted := r.FormValue("level")
		switch {
		case r.Method == http.MethodGet && wanted != "":
			http.Error(w, "changing the level takes POST or PUT", http.StatusMethodNotAllowed)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			var l slog.Level
			if err := l.UnmarshalText([]byte(wanted)); err != nil {
				http.Error(w, fmt.Sprintf("level %q is none of debug, info, warn, error", wanted), http.StatusBadRequest)
				return
			}
			level.Set(l)
		}
		answer(w, level.Level().String()+"\n")
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // a client that went away is nobody to tell
}

func failJSON(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"error": err.Error()})
}
