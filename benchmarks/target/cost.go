package target

import (
	"bufio"
	"context"
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
	Mallocs float64 // objects allocated; ours only, else 0
}

// Minus returns what was used between two readings. What the reading itself
// allocates is part of it: a few thousand objects.
func (c Costs) Minus(before Costs) Costs {
	return Costs{c.CPU - before.CPU, c.Mallocs - before.Mallocs}
}

// Costs reads them.
func (i *Instance) Costs(ctx context.Context) (c Costs, err error) {
	if i.admin != "" {
		if c.Mallocs, err = i.memStat(ctx, "Mallocs", false); err != nil {
			return c, err
		}
	}
	c.CPU, err = i.CPU()
	return c, err
}

// HeapObjects returns how many objects are live, after a garbage collection. Ours
// only: false for other targets.
func (i *Instance) HeapObjects(ctx context.Context) (float64, bool, error) {
	if i.admin == "" {
		return 0, false, nil
	}
	v, err := i.memStat(ctx, "HeapObjects", true)
	return v, true, err
}

// memStat reads a field of runtime.MemStats from the end of a heap profile.
func (i *Instance) memStat(ctx context.Context, field string, gc bool) (float64, error) {
	url := i.admin + "/debug/pprof/heap?debug=1"
	if gc {
		url += "&gc=1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return parseMemStat(resp.Body, field)
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
