package task

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bothModes(t *testing.T, f func(t *testing.T, s *Scheduler)) {
	for _, mode := range []Mode{Coroutines, Goroutines} {
		t.Run(mode.String(), func(t *testing.T) {
			s := NewScheduler(mode)
			defer s.Close()
			f(t, s)
		})
	}
}

// flag is a condition in the style of all waiting: state, then a wake.
type flag struct {
	set atomic.Int64
	w   Waker
}

func (f *flag) raise(b *Batch) { f.set.Add(1); f.w.Wake(b) }

func TestParkReturnsOnWake(t *testing.T) {
	bothModes(t, func(t *testing.T, s *Scheduler) {
		var f flag
		started, ended := make(chan struct{}), make(chan struct{})
		s.Turn(func(b *Batch) {
			s.Start(b, RoutineFunc(func(tk *Task) {
				f.w = tk
				close(started)
				for f.set.Load() == 0 {
					if err := tk.Park(); err != nil {
						t.Errorf("Park: %v", err)
					}
				}
				close(ended)
			}))
		})
		<-started
		select {
		case <-ended:
			t.Fatal("ended before the wake")
		default:
		}
		s.Turn(f.raise)
		<-ended
	})
}

// TestNoWakeIsLost has many goroutines wake one task at once: it must see every
// increment although most wakes coalesce.
func TestNoWakeIsLost(t *testing.T) {
	bothModes(t, func(t *testing.T, s *Scheduler) {
		const wakers, each = 8, 2000
		var f flag
		started, ended := make(chan struct{}), make(chan struct{})
		go s.Turn(func(b *Batch) {
			s.Start(b, RoutineFunc(func(tk *Task) {
				f.w = tk
				close(started)
				for f.set.Load() < wakers*each {
					if tk.Park() != nil {
						return
					}
				}
				close(ended)
			}))
		})
		<-started
		var wg sync.WaitGroup
		for range wakers {
			wg.Go(func() {
				for range each {
					s.Turn(f.raise)
				}
			})
		}
		wg.Wait()
		<-ended
	})
}

func TestDeadline(t *testing.T) {
	bothModes(t, func(t *testing.T, s *Scheduler) {
		got := make(chan error, 1)
		s.Turn(func(b *Batch) {
			s.Start(b, RoutineFunc(func(tk *Task) {
				tk.SetDeadline(time.Now().Add(5 * time.Millisecond))
				for {
					if err := tk.Park(); err != nil {
						got <- err
						return
					}
				}
			}))
		})
		if err := <-got; !errors.Is(err, ErrDeadline) {
			t.Fatalf("Park = %v, want ErrDeadline", err)
		}
	})
}

func TestBlockLetsTheTurnEnd(t *testing.T) {
	bothModes(t, func(t *testing.T, s *Scheduler) {
		release, ended := make(chan struct{}), make(chan struct{})
		s.Turn(func(b *Batch) { // returns although the task blocks
			s.Start(b, RoutineFunc(func(tk *Task) {
				tk.Block(func() { <-release })
				close(ended)
			}))
		})
		close(release)
		<-ended
	})
}

func TestPanicEndsOnlyTheTask(t *testing.T) {
	bothModes(t, func(t *testing.T, s *Scheduler) {
		deferred, next := make(chan struct{}), make(chan struct{})
		s.Turn(func(b *Batch) {
			s.Start(b, RoutineFunc(func(*Task) {
				defer close(deferred)
				panic("on purpose")
			}))
		})
		<-deferred
		s.Turn(func(b *Batch) {
			s.Start(b, RoutineFunc(func(*Task) { close(next) }))
		})
		<-next
	})
}

func TestFreeListIsBoundedAndStopped(t *testing.T) {
	s := NewScheduler(Coroutines)
	release := make(chan struct{})
	var wg sync.WaitGroup
	s.Turn(func(b *Batch) {
		for range 2 * maxFree {
			wg.Add(1)
			s.Start(b, RoutineFunc(func(tk *Task) {
				defer wg.Done()
				tk.Block(func() { <-release })
			}))
		}
	})
	close(release)
	wg.Wait()
	s.mu.Lock()
	kept := len(s.free)
	s.mu.Unlock()
	if kept > maxFree {
		t.Errorf("%d coroutines kept, want at most %d", kept, maxFree)
	}
	s.Close()
}

// recorder notes the order in which it was flushed.
type recorder struct {
	depth int
	log   *[]int
	into  *recorder // touched by flushing this one
}

func (r *recorder) Depth() int { return r.depth }
func (r *recorder) Flush(b *Batch) {
	*r.log = append(*r.log, r.depth)
	if r.into != nil {
		b.Touch(r.into)
	}
}

func TestFlushOnceInnerFirst(t *testing.T) {
	s := NewScheduler(Coroutines)
	defer s.Close()
	var log []int
	outer := &recorder{depth: 0, log: &log}
	inner := &recorder{depth: 1, log: &log, into: outer}
	s.Turn(func(b *Batch) {
		b.Touch(outer)
		b.Touch(inner)
		b.Touch(inner)
	})
	if want := []int{1, 0}; len(log) != 2 || log[0] != want[0] || log[1] != want[1] {
		t.Errorf("flushed %v, want %v", log, want)
	}
}

func TestManyReadySpreadOverWorkers(t *testing.T) {
	s := NewScheduler(Coroutines)
	defer s.Close()
	const tasks = 500
	var wg sync.WaitGroup
	wg.Add(tasks)
	s.Turn(func(b *Batch) {
		for range tasks {
			s.Start(b, RoutineFunc(func(*Task) { wg.Done() }))
		}
	})
	wg.Wait()
}

func TestAfterWakesUnlessStopped(t *testing.T) {
	s := NewScheduler(Coroutines)
	defer s.Close()
	fired := make(chan struct{})
	s.After(time.Hour, wakeFunc(func() { t.Error("a stopped timer fired") })).Stop()
	s.After(time.Millisecond, wakeFunc(func() { close(fired) }))
	<-fired
}

type wakeFunc func()

func (f wakeFunc) Wake(*Batch) { f() }

func TestStartAndParkDoNotAllocate(t *testing.T) {
	s := NewScheduler(Coroutines)
	defer s.Close()
	var held *Task
	var r Routine = RoutineFunc(func(tk *Task) {
		held = tk
		_ = tk.Park()
	})
	wake := func(b *Batch) { held.Wake(b) }
	start := func(b *Batch) { s.Start(b, r) }
	got := testing.AllocsPerRun(1000, func() {
		s.Turn(start)
		s.Turn(wake)
	})
	if got > 0 && !raceEnabled {
		t.Errorf("%v allocations a task, want 0", got)
	}
}

func BenchmarkParkWake(b *testing.B) {
	for _, mode := range []Mode{Coroutines, Goroutines} {
		b.Run("mode="+mode.String(), func(b *testing.B) {
			s := NewScheduler(mode)
			defer s.Close()
			var f flag
			started, ended := make(chan struct{}), make(chan struct{})
			go s.Turn(func(bt *Batch) {
				s.Start(bt, RoutineFunc(func(tk *Task) {
					f.w = tk
					close(started)
					for f.set.Load() >= 0 {
						if tk.Park() != nil {
							break
						}
					}
					close(ended)
				}))
			})
			<-started
			b.ReportAllocs()
			for b.Loop() {
				s.Turn(f.raise)
			}
			f.set.Store(-1 << 40)
			s.Turn(f.w.Wake)
			<-ended
		})
	}
}
