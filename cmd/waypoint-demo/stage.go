package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// stage is what the test kit takes for its test: here it lives in a program.
type stage struct {
	ctx context.Context

	mu       sync.Mutex
	cleanups []func()
	faults   []error
}

// failure is why the demo could not go on. The kit raises it from deep within,
// where a test would end; [attempt] makes an error of it.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func failf(format string, args ...any) error { return failure{fmt.Errorf(format, args...)} }

// attempt runs do and returns the failure that the kit raised in it.
func attempt(do func()) (err error) {
	defer func() {
		if raised := recover(); raised != nil {
			f, ours := raised.(failure)
			if !ours {
				panic(raised)
			}
			err = f
		}
	}()
	do()
	return nil
}

// Helper implements meshtest.TB.
func (*stage) Helper() {}

// Cleanup has fn called at the end, the last first.
func (s *stage) Cleanup(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, fn)
}

// Context ends when the demo is interrupted.
func (s *stage) Context() context.Context { return s.ctx }

// Logf drops it: what the parts of the mesh remark is for tests.
func (*stage) Logf(string, ...any) {}

// Errorf keeps a fault that shows at the end.
func (s *stage) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

// Fatalf ends what attempt runs.
func (*stage) Fatalf(format string, args ...any) { panic(failf(format, args...)) }

// clear ends all that was started, and returns the faults that nobody has heard of.
func (s *stage) clear() error {
	s.mu.Lock()
	cleanups := s.cleanups
	s.cleanups = nil
	s.mu.Unlock()
	for _, fn := range slices.Backward(cleanups) {
		fn()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.faults...); err != nil {
		return failure{err}
	}
	return nil
}
