package lab

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Metric reads one of a waypoint's pod, by its name and labels as they are printed.
// One that is not there yet is 0.
func (s *Story) Metric(pod *corev1.Pod, series string) (float64, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Get("http://" + pod.Status.PodIP + ":15020/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, lines.Err()
}

// MetricAbove waits until one is more than a value, and returns it.
func (s *Story) MetricAbove(pod *corev1.Pod, series string, value float64) (got float64) {
	s.Helper()
	s.Eventually(series+" grows", func() (err error) {
		got, err = s.Metric(pod, series)
		if err == nil && got <= value {
			err = fmt.Errorf("it is %v, want more than %v", got, value)
		}
		return err
	})
	return got
}
