package wire

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/task"
)

// A key update that asks for ours makes crypto/tls write while it reads. The
// answer leaves by the flusher's way, and both directions go on with new keys.
// crypto/tls does not ask for one itself: OpenSSL does, by its command K.
func TestKeyUpdate(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(openssl, "s_client", "-connect", l.Addr().String(), "-tls1_3")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tcp, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Server(t.Context(), newScheduler(t), tcp, testConfig(), NewHandshakes(1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := newCollector()
	r.then = func(b *task.Batch, p []byte) error {
		_, err := c.Write(b, []byte(strings.ToUpper(string(p))))
		return err
	}
	r.serve(t, c)
	io.WriteString(in, "one\n")
	r.wait(len("one\n"))
	io.WriteString(in, "K\n")
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if lines.Text() == "KEYUPDATE" {
			break // commands are read from the start of its input only
		}
	}
	io.WriteString(in, "two\n")
	r.wait(len("one\ntwo\n"))
	closeWrite(t, c)
	got, err := io.ReadAll(out)
	if err != nil {
		t.Error(err)
	}
	in.Close()
	_ = cmd.Wait() // its exit code tells of the verification, which is not asked for
	if s := string(got); !strings.Contains(s, "ONE\n") || !strings.Contains(s, "TWO\n") {
		t.Errorf("openssl printed %q", s)
	}
}
