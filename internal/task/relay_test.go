package task

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"
)

// pipeEnd is a Stream in memory that takes at most room bytes a write and is
// blocked while its peer holds limit of them.
type pipeEnd struct {
	in     []byte
	inErr  error
	peer   *pipeEnd
	waker  Waker
	limit  int
	closed bool
}

func newPipe(limit int) (*pipeEnd, *pipeEnd) {
	a, b := &pipeEnd{limit: limit}, &pipeEnd{limit: limit}
	a.peer, b.peer = b, a
	return a, b
}

func (p *pipeEnd) Peek() []byte { return p.in }
func (p *pipeEnd) Discard(b *Batch, n int) {
	p.in = p.in[n:]
	p.peer.notify(b)
}
func (p *pipeEnd) ReadErr() error { return p.inErr }
func (p *pipeEnd) Write(b *Batch, d []byte) (int, error) {
	n := min(len(d), p.limit-len(p.peer.in))
	p.peer.in = append(p.peer.in, d[:n]...)
	p.peer.notify(b)
	return n, nil
}

func (p *pipeEnd) CloseWrite(b *Batch) error {
	p.peer.inErr, p.closed = io.EOF, true
	p.peer.notify(b)
	return nil
}

func (p *pipeEnd) Abort(b *Batch, err error) {
	p.inErr, p.peer.inErr = err, err
	p.peer.notify(b)
}
func (p *pipeEnd) SetWaker(w Waker) { p.waker = w }
func (p *pipeEnd) Done(*Batch)      {}
func (p *pipeEnd) notify(b *Batch) {
	if p.waker != nil {
		p.waker.Wake(b)
	}
}

func TestRelayHalfCloseAndBackPressure(t *testing.T) {
	s := NewScheduler(Coroutines)
	defer s.Close()
	client, down := newPipe(7) // odd sizes cut every write somewhere else
	up, server := newPipe(5)
	r := &Relay{Down: down, Up: up}
	result := errors.New("not ended")
	up2down, down2up := bytes.Repeat([]byte("reply-"), 100), bytes.Repeat([]byte("ask"), 100)

	s.Turn(func(b *Batch) {
		s.Start(b, RoutineFunc(func(tk *Task) { result = r.Run(tk) }))
	})
	var gotUp, gotDown []byte
	send := func(e *pipeEnd, data []byte, into *pipeEnd, got *[]byte) {
		for len(data) > 0 || len(into.in) > 0 {
			s.Turn(func(b *Batch) {
				n, _ := e.Write(b, data)
				data = data[n:]
			})
			s.Turn(func(b *Batch) {
				*got = append(*got, into.in...)
				into.Discard(b, len(into.in))
			})
		}
	}
	send(client, down2up, server, &gotUp)
	s.Turn(func(b *Batch) { _ = client.CloseWrite(b) })
	if server.inErr != io.EOF {
		t.Fatalf("the half-close did not reach the server: %v", server.inErr)
	}
	send(server, up2down, client, &gotDown) // the other direction flows on
	s.Turn(func(b *Batch) { _ = server.CloseWrite(b) })
	if result != nil {
		t.Fatalf("Run = %v", result)
	}
	if !bytes.Equal(gotUp, down2up) || !bytes.Equal(gotDown, up2down) {
		t.Error("bytes changed on the way")
	}
	if r.Received != int64(len(down2up)) || r.Sent != int64(len(up2down)) {
		t.Errorf("counted %d and %d", r.Received, r.Sent)
	}
}

func TestRelayEndsOnErrorCheckAndIdle(t *testing.T) {
	broken := errors.New("reset by peer")
	denied := errors.New("denied")
	tests := []struct {
		name string
		idle time.Duration
		do   func(b *Batch, client, server *pipeEnd, deny *bool)
		want error
	}{
		{"upstream breaks", 0, func(b *Batch, _, s *pipeEnd, _ *bool) { s.Abort(b, broken) }, broken},
		{"policy changes", 0, func(b *Batch, c, _ *pipeEnd, deny *bool) { *deny = true; c.peer.notify(b) }, denied},
		{"idle", time.Millisecond, func(*Batch, *pipeEnd, *pipeEnd, *bool) {}, ErrIdle},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewScheduler(Coroutines)
			defer s.Close()
			client, down := newPipe(10)
			up, server := newPipe(10)
			deny := false
			check := func() error {
				if deny {
					return denied
				}
				return nil
			}
			result := make(chan error, 1)
			s.Turn(func(b *Batch) {
				s.Start(b, RoutineFunc(func(tk *Task) {
					result <- (&Relay{Down: down, Up: up, Idle: tt.idle, Check: check}).Run(tk)
				}))
			})
			s.Turn(func(b *Batch) { tt.do(b, client, server, &deny) })
			if err := <-result; !errors.Is(err, tt.want) {
				t.Errorf("Run = %v, want %v", err, tt.want)
			}
		})
	}
}
