package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// answer is what the steps look at of one.
type answer struct {
	status int
	app    string // that answered; empty: the waypoint itself
}

func (a answer) ok() bool { return a.status == http.StatusOK }

// send sends a request with header fields, name and value in turn, and reads its
// answer to the end.
func send(ctx context.Context, c *http.Client, method, url string, header ...string) (answer, error) {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader("some body")
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("X-App")}, err
}

// answeredBy sends n requests and counts the answers by application. Any status
// but 200 counts as that of none.
func (w *world) answeredBy(ctx context.Context, n int, method, url string, header ...string) (map[string]int, error) {
	counts := make(map[string]int)
	for range n {
		got, err := send(ctx, w.clientHTTP, method, url, header...)
		if err != nil {
			return nil, err
		}
		who := got.app
		if !got.ok() {
			who = fmt.Sprintf("status %d", got.status)
		}
		counts[who]++
	}
	return counts, nil
}

const (
	splitRequests = 1000
	// Four and a half standard deviations: by chance, one demo in 100,000 is off.
	splitTolerance = 45

	splitExpected = "of 1,000 requests 855 to 945 at reviews-v1 (its weight is 90 %), the others at reviews-v2"
)

func split(ctx context.Context, w *world) (string, bool, error) {
	counts, err := w.answeredBy(ctx, splitRequests, http.MethodGet, "http://"+reviewsVIP+"/")
	if err != nil {
		return "", false, err
	}
	v1, v2 := counts["reviews-v1"], counts["reviews-v2"]
	seen := fmt.Sprintf("%d at reviews-v1, %d at reviews-v2", v1, v2)
	if v1+v2 != splitRequests {
		return fmt.Sprintf("%s: %v", seen, counts), false, nil
	}
	return seen, v1 >= 900-splitTolerance && v1 <= 900+splitTolerance, nil
}

const headerExpected = "all of 50 requests with the header x-canary: 1 at reviews-v2"

func headerRoute(ctx context.Context, w *world) (string, bool, error) {
	counts, err := w.answeredBy(ctx, 50, http.MethodGet, "http://"+reviewsVIP+"/", "X-Canary", "1")
	if err != nil {
		return "", false, err
	}
	if counts["reviews-v2"] != 50 {
		return fmt.Sprint(counts), false, nil
	}
	return "50 at reviews-v2", true, nil
}

const retryExpected = "all of 50 POSTs answered 200, though one of the two endpoints is dead and the waypoint tries it"

func retry(ctx context.Context, w *world) (string, bool, error) {
	before, err := w.metric(ctx, "waypoint_upstream_dials_total", "result", "failed")
	if err != nil {
		return "", false, err
	}
	counts, err := w.answeredBy(ctx, 50, http.MethodPost, "http://"+ratingsVIP+"/")
	if err != nil {
		return "", false, err
	}
	after, err := w.metric(ctx, "waypoint_upstream_dials_total", "result", "failed")
	if err != nil {
		return "", false, err
	}
	tried := int(after - before)
	if counts["ratings-1"] != 50 {
		return fmt.Sprintf("%v, the dead endpoint was tried %d times", counts, tried), false, nil
	}
	return fmt.Sprintf("50 times 200, all from ratings-1; the dead endpoint was tried %d times", tried), tried > 0, nil
}

const (
	edits = 10
	// slowEdit is what an edit may take on a machine that is busy with other things.
	slowEdit = time.Second

	editExpected = "x-canary: 1 follows each of 10 edits of route-http.yaml within 1 s, without a request lost"
)

// edit points the canary rule at the other version, back and forth, and sends
// requests until one goes there.
func edit(ctx context.Context, w *world) (string, bool, error) {
	path := filepath.Join(w.manifests, "route-http.yaml")
	original, err := os.ReadFile(path)
	if err != nil {
		return "", false, err
	}
	edited := strings.Replace(string(original), "name: reviews-v2", "name: reviews-v1", 1)
	var took []time.Duration
	requests := 0
	for i := range edits {
		text, to := edited, "reviews-v1"
		if i%2 == 1 {
			text, to = string(original), "reviews-v2"
		}
		start := time.Now()
		if err := replaceFile(path, text); err != nil {
			return "", false, err
		}
		n, err := w.untilAt(ctx, to)
		if err != nil {
			return "", false, fmt.Errorf("after edit %d: %w", i+1, err)
		}
		took = append(took, time.Since(start))
		requests += n
	}
	slices.Sort(took)
	slowest := took[edits-1]
	return fmt.Sprintf("live after %s at the median, %s at most; %d requests meanwhile, all 200",
		millis(took[edits/2]), millis(slowest), requests), slowest < slowEdit, nil
}

// untilAt sends requests of the canary rule until an application answers one, and
// counts them. Any status but 200 is an error.
func (w *world) untilAt(ctx context.Context, app string) (requests int, err error) {
	for {
		got, err := send(ctx, w.clientHTTP, http.MethodGet, "http://"+reviewsVIP+"/", "X-Canary", "1")
		requests++
		switch {
		case err != nil:
			return requests, err
		case !got.ok():
			return requests, fmt.Errorf("status %d", got.status)
		case got.app == app:
			return requests, nil
		}
	}
}

// replaceFile puts a whole new file in place of another, as editors do and kubelet does.
func replaceFile(path, text string) error {
	part := filepath.Join(filepath.Dir(path), ".new")
	if err := os.WriteFile(part, []byte(text), 0o644); err != nil { //nolint:gosec // a manifest is no secret
		return err
	}
	return os.Rename(part, path)
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
