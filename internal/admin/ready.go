package admin

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Readiness tells whether this waypoint should get traffic: when none of its
// conditions has a reason against it. It starts without conditions, and ready.
type Readiness struct {
	mu         sync.Mutex
	conditions []*Condition
}

// Condition is one thing that has to be so. Its methods may be called from any
// goroutine.
type Condition struct {
	readiness *Readiness
	name      string
	reason    string // why not; empty: it is so. Guarded by readiness.mu
}

// Require adds a condition that is not met yet, for the reason given: "no
// certificate yet".
func (r *Readiness) Require(name, reason string) *Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Condition{readiness: r, name: name, reason: reason}
	r.conditions = append(r.conditions, c)
	return c
}

// Met says that the condition holds.
func (c *Condition) Met() { c.set("") }

// NotMet says why it does not.
func (c *Condition) NotMet(reason string) { c.set(reason) }

func (c *Condition) set(reason string) {
	c.readiness.mu.Lock()
	defer c.readiness.mu.Unlock()
	c.reason = reason
}

// Reasons returns what is in the way, as "name: reason", in the order in which
// the conditions were added. None: ready.
func (r *Readiness) Reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var reasons []string
	for _, c := range r.conditions {
		if c.reason != "" {
			reasons = append(reasons, c.name+": "+c.reason)
		}
	}
	return slices.Clip(reasons)
}

// ServeHTTP answers 200 or 503 with the reasons, one a line.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	reasons := r.Reasons()
	if len(reasons) == 0 {
		answer(w, "ready\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	answer(w, strings.Join(reasons, "\n")+"\n")
}

// answer writes a body. A client that went away is nobody to tell.
func answer(w io.Writer, body string) { _, _ = io.WriteString(w, body) }

func answerf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
