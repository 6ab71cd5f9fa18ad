package h2

import (
	"bytes"
	"io"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// checkBounds fails if the connection holds more than it may.
func checkBounds(t *testing.T, c *Conn) {
	t.Helper()
	if len(c.streams) > 100 || c.working > 200 {
		t.Fatalf("%d streams, %d worked for", len(c.streams), c.working)
	}
	if c.partial != nil && len(c.partial.b) > headerLen+maxFrame {
		t.Fatalf("%d bytes of a frame kept", len(c.partial.b))
	}
	if q := c.out.queued(); q > hardLimit+maxFrame {
		t.Fatalf("%d bytes of output", q)
	}
	for _, s := range c.streams {
		if s.in.len() > int(s.window) {
			t.Fatalf("%d bytes wait on a stream with a window of %d", s.in.len(), s.window)
		}
	}
	if got := c.block.got; got != nil && len(got.Fields) > c.cfg.MaxHeaderFields {
		t.Fatalf("%d fields", len(got.Fields))
	}
}

// seeds are conversations that parse.
func seeds() [][]byte {
	r := newRaw().settings(setting{settingInitialWindowSize, 10}, setting{settingHeaderTableSize, 0}).
		get(1, 0, "content-length", "5").data(1, 0, "he").frame(frameData, flagPadded, 1, 1, 'l', 0).data(1, flagEndStream, "lo").
		frame(framePing, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8).
		headers(3, 0, ":method", "CONNECT", ":authority", "10.0.0.1:80", "baggage", "k=v").data(3, 0, "tunnel").
		u32(frameWindowUpdate, 3, 100).u32(frameWindowUpdate, 0, 100).headers(3, flagEndStream, "x-t", "1").
		get(5, flagEndStream).reset(5, Cancel).frame(framePriority, 0, 7, 0, 0, 0, 1, 9).
		frame(frameHeaders, flagPriority|flagPadded, 9, 1, 0, 0, 0, 0, 9, 0x82, 0).frame(frameContinuation, flagEndHeaders, 9, 0x86, 0x84).
		frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	answers := newRaw().settings().headers(1, 0, ":status", "103", "link", "x").headers(1, 0, ":status", "200").
		data(1, 0, "body").headers(1, flagEndStream, "grpc-status", "0").
		headers(3, 0, ":status", "200").data(3, 0, "tunnel").reset(3, NoError).reset(5, RefusedStream).
		frame(frameGoAway, 0, 0, 0, 0, 0, 5, 0, 0, 0, 2, 'b', 'y', 'e')
	return [][]byte{r.p, answers.p}
}

// FuzzServer feeds a server anything, in pieces, while its handler answers: it
// must not panic, hold more than its bounds, or send what is no frame.
func FuzzServer(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s, uint8(0))
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, p []byte, cut uint8) {
		l := newLone(t, true, Config{ExtendedConnect: true})
		l.events.onAccept = func(b *task.Batch, s *Stream) {
			s.SetWaker(wakeFunc(func(b *task.Batch) { answer(b, s) }))
			answer(b, s)
		}
		feedPieces(t, l, p, cut)
	})
}

// answer echoes what has come, at most a bit at a time.
func answer(b *task.Batch, s *Stream) {
	if h := s.Head(); h != nil {
		_ = s.WriteHead(b, &Head{Status: 200, Fields: h.Fields}, false)
		s.NextHead()
	}
	p := s.Peek()
	n, _ := s.Write(b, p)
	s.Discard(b, n)
	if end := s.ReadErr(); end != nil && len(s.Peek()) == 0 {
		_ = s.CloseWrite(b)
		s.Done(b)
	}
}

// FuzzClient feeds a client with open streams anything.
func FuzzClient(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s, uint8(0))
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, p []byte, cut uint8) {
		l := newLone(t, false, Config{})
		l.sched.Turn(func(b *task.Batch) {
			for range 3 {
				s, err := l.c.Open(b, &Head{Method: "GET", Scheme: "http", Authority: "a", Path: "/"}, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				s.SetWaker(wakeFunc(func(b *task.Batch) { answer(b, s) }))
			}
		})
		feedPieces(t, l, p, cut)
	})
}

func feedPieces(t *testing.T, l *lone, p []byte, cut uint8) {
	size := len(p)
	if cut > 0 {
		size = int(cut)
	}
	for len(p) > 0 {
		n := min(size, len(p))
		l.sched.Turn(func(b *task.Batch) { _ = l.c.Receive(b, p[:n]) })
		p = p[n:]
		l.output()
		checkBounds(t, l.c)
	}
	l.sched.Turn(func(b *task.Batch) { l.c.Closed(b, io.EOF) })
	if len(l.c.streams) != 0 || l.c.partial != nil || l.c.out.buf != nil {
		t.Fatal("a connection that has ended holds something")
	}
}

// FuzzDuo has a client and a server talk through cuts at random places while the
// input says who does what: bytes arrive in order and complete, and every stream
// ends.
func FuzzDuo(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 200, 201, 30, 31, 255}, int32(1000))
	f.Add(bytes.Repeat([]byte{0, 17, 34, 3, 67, 5, 101, 250, 82}, 50), int32(70_000))
	f.Fuzz(func(t *testing.T, program []byte, window int32) {
		if window < 1 || len(program) > 3000 {
			return
		}
		cfg := Config{StreamWindow: window, ConnWindow: max(window/2, 70_000), MaxStreamWindow: 4 * min(window, 1<<20)}
		m := &model{t: t, d: newDuo(t, cfg, cfg)}
		for i, op := range program {
			m.step(op, i)
		}
		m.finish()
	})
}

// model is what a pair of connections must do.
type model struct {
	t     *testing.T
	d     *duo
	pairs []*modelPair
}

// modelPair is one stream: both its ends, and what each has been given to send.
type modelPair struct {
	ends [2]*Stream
	sent [2][]byte // by ends[i], taken by Write
	got  [2][]byte // by ends[i]
	shut [2]bool   // ends[i] has closed its side
	next byte
}

// step does one thing: the low bits choose what, the high ones how much.
func (m *model) step(op byte, i int) {
	amount := 1 + int(op>>3)*int(op>>3)*7
	var p *modelPair
	side := i % 2
	if len(m.pairs) > 0 {
		p = m.pairs[i%len(m.pairs)]
	}
	switch what := op & 7; {
	case what == 0 || p == nil:
		m.open()
	case what == 1, what == 2:
		m.write(p, side, amount)
	case what == 3:
		m.read(p, side, amount)
	case what == 4 && op>>3 > 28:
		m.close(p, side)
	case what == 5:
		m.carry(m.d.toServer, m.d.server, amount)
	default:
		m.carry(m.d.toClient, m.d.client, amount)
	}
	checkBounds(m.t, m.d.client)
	checkBounds(m.t, m.d.server)
}

func (m *model) open() {
	if m.d.client.Capacity() == 0 || len(m.pairs) > 20 {
		return
	}
	p := new(modelPair)
	m.d.serverEvents.onAccept = func(b *task.Batch, s *Stream) {
		for _, q := range m.pairs {
			if q.ends[0].ID() == s.ID() {
				q.ends[1] = s
			}
		}
		if err := s.WriteHead(b, &Head{Status: 200}, false); err != nil {
			m.t.Fatal(err)
		}
	}
	m.d.turn(func(b *task.Batch) {
		var err error
		if p.ends[0], err = m.d.client.Open(b, &Head{Method: "CONNECT", Authority: "a:1"}, false, nil); err != nil {
			m.t.Fatal(err)
		}
	})
	m.pairs = append(m.pairs, p)
}

func (m *model) write(p *modelPair, side, n int) {
	s := p.ends[side]
	if s == nil || p.shut[side] {
		return
	}
	data := make([]byte, n)
	for i := range data {
		p.next++
		data[i] = p.next
	}
	m.d.turn(func(b *task.Batch) {
		n, err := s.Write(b, data)
		if err != nil {
			m.t.Fatalf("Write: %v", err)
		}
		p.sent[side] = append(p.sent[side], data[:n]...)
	})
}

func (m *model) read(p *modelPair, side, n int) {
	s := p.ends[side]
	if s == nil {
		return
	}
	m.d.turn(func(b *task.Batch) {
		data := s.Peek()
		data = data[:min(n, len(data))]
		p.got[side] = append(p.got[side], data...)
		s.Discard(b, len(data))
	})
	want := p.sent[1-side]
	if len(p.got[side]) > len(want) || !bytes.Equal(p.got[side], want[:len(p.got[side])]) {
		m.t.Fatal("bytes arrived that were not sent, or in another order")
	}
}

func (m *model) close(p *modelPair, side int) {
	if s := p.ends[side]; s != nil && !p.shut[side] {
		p.shut[side] = true
		m.d.turn(func(b *task.Batch) {
			if err := s.CloseWrite(b); err != nil {
				m.t.Fatalf("CloseWrite: %v", err)
			}
		})
	}
}

// carry moves at most n bytes of a pipe to the connection at its other end.
func (m *model) carry(from *pipe, to *Conn, n int) {
	n = min(n, len(from.sent))
	if n == 0 {
		return
	}
	data := bytes.Clone(from.sent[:n])
	from.sent = from.sent[n:]
	m.d.turn(func(b *task.Batch) { _ = to.Receive(b, data) })
	clear(data) // nothing of it may be kept
}

// finish lets everything that is under way arrive.
func (m *model) finish() {
	m.d.move()
	for _, p := range m.pairs {
		m.close(p, 0)
		m.close(p, 1)
	}
	m.d.move()
	for _, p := range m.pairs {
		for side := range 2 {
			m.read(p, side, 1<<30)
		}
	}
	m.d.move()
	for i, p := range m.pairs {
		for side, s := range p.ends {
			if len(p.got[side]) != len(p.sent[1-side]) || s.ReadErr() != io.EOF {
				m.t.Fatalf("stream %d, end %d: %d of %d bytes, %v", i, side, len(p.got[side]), len(p.sent[1-side]), s.ReadErr())
			}
		}
	}
	if m.d.client.Streams()+m.d.server.Streams() > 0 || m.d.client.Err() != nil || m.d.server.Err() != nil {
		m.t.Fatalf("not all ended in order: %v, %v", m.d.client.Err(), m.d.server.Err())
	}
}
