package upstream

import (
	"net/netip"
	"testing"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
	"github.com/waypoint-mesh/waypoint/internal/task"
)

func key(addr, sa string) Key {
	return Key{Addr: netip.MustParseAddrPort(addr), Identity: identity.ID{TrustDomain: "t", Namespace: "n", ServiceAccount: sa}}
}

// newPool returns a pool of numbers and where what it closes is sent.
func newPool(t *testing.T, timeout time.Duration, perKey int) (*Idle[int], chan int, *task.Scheduler) {
	s := task.NewScheduler(task.Coroutines)
	t.Cleanup(s.Close)
	closed := make(chan int, 10)
	return NewIdle(s, timeout, perKey, func(_ *task.Batch, n int) { closed <- n }), closed, s
}

func TestIdleIsLastInFirstOutByEndpoint(t *testing.T) {
	p, _, s := newPool(t, 0, 4)
	a, b := key("127.0.0.1:80", "a"), key("127.0.0.1:80", "b")
	s.Turn(func(bt *task.Batch) {
		p.Put(bt, a, 1)
		p.Put(bt, a, 2)
	})
	if _, ok := p.Get(b); ok {
		t.Error("an item for the same address but another identity was given out")
	}
	for _, want := range []int{2, 1} {
		if got, ok := p.Get(a); !ok || got != want {
			t.Errorf("Get = %d, %v, want %d", got, ok, want)
		}
	}
	if _, ok := p.Get(a); ok {
		t.Error("Get of an empty pool")
	}
}

func TestIdleGivesUp(t *testing.T) {
	a, b := key("127.0.0.1:80", "a"), key("127.0.0.2:80", "a")
	tests := []struct {
		name string
		do   func(p *Idle[int], bt *task.Batch)
		want int
		left int
	}{
		{"above its bound", func(p *Idle[int], bt *task.Batch) { p.Put(bt, a, 3) }, 3, 3},
		{"the endpoint left", func(p *Idle[int], bt *task.Batch) { p.Retain(bt, func(k Key) bool { return k == a }) }, 9, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, closed, s := newPool(t, time.Hour, 2)
			s.Turn(func(bt *task.Batch) {
				p.Put(bt, a, 1)
				p.Put(bt, a, 2)
				p.Put(bt, b, 9)
				tt.do(p, bt)
			})
			if got := <-closed; got != tt.want {
				t.Errorf("closed %d, want %d", got, tt.want)
			}
			if p.Len() != tt.left {
				t.Errorf("%d left, want %d", p.Len(), tt.left)
			}
		})
	}
}

func TestIdleTimeoutAndClose(t *testing.T) {
	a := key("127.0.0.1:80", "a")
	p, closed, s := newPool(t, 4*time.Millisecond, 2)
	s.Turn(func(bt *task.Batch) { p.Put(bt, a, 1) })
	if got := <-closed; got != 1 {
		t.Errorf("the sweep closed %d", got)
	}
	s.Turn(func(bt *task.Batch) {
		p.Close(bt)
		p.Put(bt, a, 2)
	})
	if got := <-closed; got != 2 {
		t.Errorf("a closed pool closed %d", got)
	}
}

func TestIdleRemove(t *testing.T) {
	a := key("127.0.0.1:80", "a")
	p, _, s := newPool(t, 0, 2)
	s.Turn(func(bt *task.Batch) { p.Put(bt, a, 1) })
	if !p.Remove(a, 1) || p.Remove(a, 1) {
		t.Error("Remove must report once that the item was there")
	}
}
