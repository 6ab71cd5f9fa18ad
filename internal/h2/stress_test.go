package h2

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// TestStress has many tasks use one connection over a socket at once, some of
// which reset or walk away. Nothing may hang, and nothing may be left.
func TestStress(t *testing.T) {
	bothModes(t, func(t *testing.T, sched *task.Scheduler) {
		addr := listen(t, sched, Config{}, echo)
		c := dial(t, sched, Config{StreamWindow: 20_000}, addr)
		var wg sync.WaitGroup
		for worker := range uint64(50) {
			wg.Add(1)
			go sched.Turn(func(b *task.Batch) {
				sched.Start(b, task.RoutineFunc(func(tk *task.Task) {
					defer wg.Done()
					rng := rand.New(rand.NewPCG(worker, 7))
					for range 8 {
						stressOnce(t, tk, c, rng)
					}
				}))
			})
		}
		wg.Wait()
		if c.Err() != nil || c.Streams() != 0 {
			t.Errorf("%d streams are left; %v", c.Streams(), c.Err())
		}
	})
}

func stressOnce(t *testing.T, tk *task.Task, c *Conn, rng *rand.Rand) {
	s, err := c.Open(tk.Batch(), &Head{Method: "POST", Scheme: "http", Authority: "a", Path: "/"}, false, tk)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { s.Done(tk.Batch()) }()
	body := randomBytes(rng.IntN(200_000))
	switch rng.IntN(6) {
	case 0:
		_, _ = s.Write(tk.Batch(), body)
		s.Abort(tk.Batch(), Cancel)
		return
	case 1: // walks away with bytes under way
		_, _ = s.Write(tk.Batch(), body)
		_ = tk.Park()
		return
	}
	if got := pingPong(tk, s, body); !bytes.Equal(got, body) {
		t.Errorf("%d bytes came back as %d: %v", len(body), len(got), s.ReadErr())
	}
}
