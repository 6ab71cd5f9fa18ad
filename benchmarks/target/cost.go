package target

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Costs are what a target has used since it was started.
type Costs struct {
	CPU     time.Duration
	Counted bool    // Mallocs are known: of our waypoint
	Mallocs float64 // objects allocated
}

// Minus returns what was used between two readings.
func (c Costs) Minus(before Costs) Costs {
	return Costs{c.CPU - before.CPU, c.Counted && before.Counted, c.Mallocs - before.Mallocs}
}

// Costs reads them.
func (i *Instance) Costs(ctx context.Context) (c Costs, err error) {
	if c.Counted = i.admin != ""; c.Counted {
		if c.Mallocs, err = i.mallocs(ctx); err != nil {
			return c, err
		}
	}
	c.CPU, err = i.CPU()
	return c, err
}

// mallocs returns how many objects were allocated, without those of the readings:
// some thousands each, as many every time.
func (i *Instance) mallocs(ctx context.Context) (float64, error) {
	if i.perReading == 0 {
		var last float64
		for range 3 { // the first ones fill caches
			now, err := i.memStat(ctx, "Mallocs", false)
			if err != nil {
				return 0, err
			}
			i.perReading, last = now-last, now
		}
	}
	now, err := i.memStat(ctx, "Mallocs", false)
	i.readings++
	return now - i.perReading*float64(i.readings), err
}

// HeapObjects returns how many objects are live, after a garbage collection. Ours
// only.
func (i *Instance) HeapObjects(ctx context.Context) (float64, error) {
	return i.memStat(ctx, "HeapObjects", true)
}

// HeapLive returns how many bytes of objects are live, after a garbage collection.
// Ours only.
func (i *Instance) HeapLive(ctx context.Context) (float64, error) {
	// Two, as pools keep what was not used in the first.
	if _, err := i.memStat(ctx, "HeapAlloc", true); err != nil {
		return 0, err
	}
	return i.memStat(ctx, "HeapAlloc", true)
}

// memStat reads a field of runtime.MemStats from the end of a heap profile.
func (i *Instance) memStat(ctx context.Context, field string, gc bool) (v float64, err error) {
	url := i.admin + "/debug/pprof/heap?debug=1"
	if gc {
		url += "&gc=1"
	}
	err = fetch(ctx, url, func(body io.Reader) error {
		v, err = parseMemStat(body, field)
		return err
	})
	return v, err
}

// RequestsCounted returns how many requests the target's metrics have.
func (i *Instance) RequestsCounted(ctx context.Context) (n float64, err error) {
	err = fetch(ctx, i.metrics, func(body io.Reader) error {
		n, err = sumRequests(body)
		return err
	})
	return n, err
}

// Profiled reports whether Profile works: for ours.
func (i *Instance) Profiled() bool { return i.admin != "" }

// Profile writes a profile of net/http/pprof, such as "allocs", to w.
func (i *Instance) Profile(ctx context.Context, what string, w io.Writer) error {
	return fetch(ctx, i.admin+"/debug/pprof/"+what, func(body io.Reader) error {
		_, err := io.Copy(w, body)
		return err
	})
}

// Snapshot returns the version of the configuration that our waypoint has in force,
// and how many services there are in it.
func (i *Instance) Snapshot(ctx context.Context) (version uint64, services int, err error) {
	var dump struct {
		Version  uint64            `json:"version"`
		Services []json.RawMessage `json:"services"`
	}
	err = fetch(ctx, i.admin+"/snapshot", func(body io.Reader) error { return json.NewDecoder(body).Decode(&dump) })
	return dump.Version, len(dump.Services), err
}

// fetchTimeout is longer than a CPU profile takes.
const fetchTimeout = time.Minute

func fetch(ctx context.Context, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Timeout: fetchTimeout}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	if err := read(resp.Body); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// sumRequests adds up all series of a counter of requests in Prometheus' format:
// istio_requests_total, which Envoy prefixes with its own name.
func sumRequests(r io.Reader) (float64, error) {
	var sum float64
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), "{")
		if strings.HasPrefix(name, "#") || !strings.HasSuffix(name, "istio_requests_total") {
			continue
		}
		v, err := strconv.ParseFloat(lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, lines.Err()
}

func parseMemStat(r io.Reader, field string) (float64, error) {
	prefix := "# " + field + " = "
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("a heap profile without %q", prefix)
}
