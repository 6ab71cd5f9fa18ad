package l7

import (
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// lingerTime is how long a client may take to see that we have closed.
const lingerTime = 5 * time.Second

// lingering drops what still comes in on a stream whose our side has ended: to
// reset it at once could cost the client the response.
type lingering struct {
	stream task.Stream
	late   *task.Timer
	until  time.Time

	mu   sync.Mutex // one turn at a time
	over bool       // guarded by mu
}

func linger(s *task.Scheduler, b *task.Batch, stream task.Stream) {
	err := stream.CloseWrite(b)
	if err != nil || stream.ReadErr() != nil {
		stream.Done(b)
		return
	}
	l := &lingering{stream: stream, until: time.Now().Add(lingerTime)}
	l.late = s.After(lingerTime, l)
	stream.SetWaker(l)
	l.Wake(b)
}

// Wake has what came dropped, in this turn but not in line.
func (l *lingering) Wake(b *task.Batch) { b.Add(l) }

// RunIn drops what came, and lets go of the stream when the client has closed or
// had its time.
func (l *lingering) RunIn(b *task.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = l.stream.ReadErr() != nil || !time.Now().Before(l.until)
	if n := len(l.stream.Peek()); n > 0 {
		l.stream.Discard(b, n)
	}
	if l.over {
		l.late.Stop()
		l.stream.Done(b)
	}
}
