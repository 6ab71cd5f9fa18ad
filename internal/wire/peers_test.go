package wire

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

var testConfig = sync.OnceValue(func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
	}
})

func newScheduler(t testing.TB) *task.Scheduler {
	s := task.NewScheduler(task.Coroutines)
	t.Cleanup(s.Close)
	return s
}

// sockets returns the two ends of a TCP connection.
func sockets(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	l, err := Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = DialTCP(context.Background(), l.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// overTLS returns a Conn and a plain crypto/tls client as its peer.
func overTLS(t testing.TB, o Options) (*Conn, *tls.Conn) {
	t.Helper()
	a, b := sockets(t)
	peer := tls.Client(a, testConfig())
	done := make(chan error, 1)
	go func() { done <- peer.Handshake() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := Server(ctx, newScheduler(t), b, testConfig(), NewHandshakes(1), o)
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	return c, peer
}

func overTCP(t testing.TB, o Options) (*Conn, *net.TCPConn) {
	t.Helper()
	a, b := sockets(t)
	c, err := Plain(newScheduler(t), b, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

// collector records what a reader delivers.
type collector struct {
	mu   sync.Mutex
	cond *sync.Cond
	data []byte
	err  error
	done chan struct{}
	then func(b *task.Batch, p []byte) error
}

func serve(t testing.TB, c *Conn) *collector {
	r := newCollector()
	r.serve(t, c)
	return r
}

func newCollector() *collector {
	r := &collector{done: make(chan struct{})}
	r.cond = sync.NewCond(&r.mu)
	return r
}

func (r *collector) serve(t testing.TB, c *Conn) {
	left := make(chan struct{})
	go func() { c.Serve(r); close(left) }()
	t.Cleanup(func() {
		c.sched.Turn(func(b *task.Batch) { c.Abort(b, nil) })
		select {
		case <-left:
		case <-time.After(patience):
			t.Error("the reader did not leave after an abort")
		}
	})
}

func (r *collector) Receive(b *task.Batch, p []byte) error {
	var err error
	if r.then != nil {
		err = r.then(b, p)
	}
	r.mu.Lock()
	r.data = append(r.data, p...)
	r.cond.Broadcast()
	r.mu.Unlock()
	return err
}

func (r *collector) Closed(_ *task.Batch, err error) {
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
	close(r.done)
}

// closed waits for the end of reading and returns its reason.
func (r *collector) closed(t testing.TB) error {
	t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		t.Fatal("the reader was not told of the end")
		return nil
	}
}

func (r *collector) wait(n int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.data) < n {
		r.cond.Wait()
	}
	return r.data
}

// signal is a Waker for goroutines.
type signal chan struct{}

func (s signal) Wake(*task.Batch) {
	select {
	case s <- struct{}{}:
	default:
	}
}

// writeAll writes p in turns, waiting for space.
func writeAll(t testing.TB, c *Conn, p []byte) error {
	wake := make(signal, 1)
	c.SetWaker(wake)
	for len(p) > 0 {
		var n int
		var err error
		c.sched.Turn(func(b *task.Batch) { n, err = c.Write(b, p) })
		if err != nil {
			return err
		}
		p = p[n:]
		if len(p) > 0 {
			select {
			case <-wake:
			case <-time.After(patience):
				return errors.New("a writer was not woken")
			}
		}
	}
	return nil
}

func closeWrite(t testing.TB, c *Conn) {
	t.Helper()
	c.sched.Turn(func(b *task.Batch) {
		if err := c.CloseWrite(b); err != nil {
			t.Error(err)
		}
	})
}

func payload(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i * 7 >> (i % 3))
	}
	return p
}
