package lab

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Load is steady traffic: requests one after the other over connections that are
// kept, over new ones in tunnels that are kept, and over new tunnels.
type Load struct {
	story   *Story
	url     string
	done    chan struct{}
	workers sync.WaitGroup
	sent    atomic.Int64

	mu     sync.Mutex
	failed []string
}

// Load starts GET requests to url by a service account of the story's namespace,
// about 140 a second. [Load.End] has to be called.
func (s *Story) Load(account, url string) *Load {
	s.Helper()
	l := &Load{story: s, url: url, done: make(chan struct{})}
	kept := s.NewClient(account)
	for range 2 {
		client := kept.HTTP()
		l.every(20*time.Millisecond, "a kept connection", func() error { return l.request(client) })
	}
	l.every(40*time.Millisecond, "a new connection", func() error {
		client := kept.HTTP()
		defer client.CloseIdleConnections()
		return l.request(client)
	})
	l.every(80*time.Millisecond, "a new tunnel", func() error {
		fresh := s.NewClient(account)
		defer fresh.Close()
		return l.request(fresh.HTTP())
	})
	return l
}

func (l *Load) every(pace time.Duration, how string, request func() error) {
	l.workers.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			if err := request(); err != nil {
				l.mu.Lock()
				l.failed = append(l.failed, fmt.Sprintf("%s over %s: %v", time.Now().Format(time.TimeOnly+".000"), how, err))
				l.mu.Unlock()
			}
			l.sent.Add(1)
			select {
			case <-tick.C:
			case <-l.done:
				return
			}
		}
	})
}

func (l *Load) request(client *http.Client) error {
	echo, err := Ask(client, http.MethodGet, l.url)
	if err == nil && echo.Status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", echo.Status, echo.Body)
	}
	return err
}

// More waits until n more requests have been sent and answered.
func (l *Load) More(n int64) {
	l.story.Helper()
	until := l.sent.Load() + n
	l.story.Eventually("traffic goes on", func() error {
		if sent := l.sent.Load(); sent < until {
			return fmt.Errorf("%d requests, want %d", sent, until)
		}
		return nil
	})
}

// End stops it. The test fails if a request did.
func (l *Load) End() {
	l.story.Helper()
	close(l.done)
	l.workers.Wait()
	l.story.Logf("%d requests, %d failed", l.sent.Load(), len(l.failed))
	for i, failure := range l.failed {
		if i == 10 {
			l.story.Errorf("and %d more", len(l.failed)-i)
			break
		}
		l.story.Error(failure)
	}
}
