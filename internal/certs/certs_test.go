package certs

import (
	"bytes"
	"context"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var web = identity.ID{TrustDomain: "cluster.local", Namespace: "a", ServiceAccount: "web"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return b
}

func open(dir string) (*Files, error) {
	return NewFiles(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile), filepath.Join(dir, CAFile), slog.New(slog.DiscardHandler))
}

// running opens the files of dir and runs the source until the test ends.
func running(t *testing.T, dir string) *Files {
	t.Helper()
	f, err := open(dir)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	return f
}

func leafSerial(t *testing.T, f *Files) string {
	t.Helper()
	cert, err := f.Certificate()
	must(t, err)
	return cert.Leaf.SerialNumber.String()
}

func criticalSAN(e pkix.Extension) bool { return e.Critical && e.Id.String() == "2.5.29.17" }

// until polls: a problem is not announced.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.After(10 * time.Second); !ok(); {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-end:
			t.Fatal("the condition did not come")
		}
	}
}

func within(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("no change was seen")
	}
}

func TestWriteDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	must(t, WriteDir(dir, web, time.Hour))
	ca, key := read(t, dir, CAFile), read(t, dir, KeyFile)
	f, err := open(dir)
	must(t, err)
	id, notAfter, err := f.Identity()
	if err != nil || id != web || time.Until(notAfter) > time.Hour || time.Until(notAfter) < time.Hour-time.Minute {
		t.Errorf("Identity = %v, %v, %v", id, notAfter, err)
	}
	cert, err := f.Certificate()
	must(t, err)
	if len(cert.Leaf.Subject.Names) != 0 || !slices.ContainsFunc(cert.Leaf.Extensions, criticalSAN) {
		t.Errorf("subject %v, want an empty one and a critical URI SAN", cert.Leaf.Subject)
	}
	must(t, WriteDir(dir, web, time.Hour))
	if !bytes.Equal(ca, read(t, dir, CAFile)) || bytes.Equal(key, read(t, dir, KeyFile)) {
		t.Error("the second run has to keep the CA and to make a new key")
	}
	for name, want := range map[string]fs.FileMode{CAFile: 0o644, CAKeyFile: 0o600, CertFile: 0o644, KeyFile: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 4 {
		t.Errorf("%d files, want 4: %v", len(entries), entries)
	}
}

func TestWriteDirRefuses(t *testing.T) {
	dir := t.TempDir()
	must(t, WriteDir(dir, web, time.Hour))
	if err := WriteDir(dir, web, 20*365*24*time.Hour); err == nil || !strings.Contains(err.Error(), "beyond that of the CA") {
		t.Errorf("a lifetime beyond the CA's: %v", err)
	}
	bad := web
	bad.Namespace = "a/b"
	if err := WriteDir(dir, bad, time.Hour); err == nil {
		t.Error("an identity with a slash was issued")
	}
	must(t, os.Remove(filepath.Join(dir, CAKeyFile)))
	if err := WriteDir(dir, web, time.Hour); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a CA: %v", err)
	}
}

func TestFilesFollowRenewal(t *testing.T) {
	dir := t.TempDir()
	must(t, WriteDir(dir, web, time.Hour))
	f := running(t, dir)
	before, changed := leafSerial(t, f), f.Changed()
	must(t, WriteDir(dir, web, 2*time.Hour))
	within(t, changed)
	if leafSerial(t, f) == before {
		t.Error("a change was told, but the certificate is the old one")
	}
}

func TestFilesKeepTheLastGood(t *testing.T) {
	dir := t.TempDir()
	must(t, WriteDir(dir, web, time.Hour))
	f := running(t, dir)
	good := leafSerial(t, f)
	path := filepath.Join(dir, CertFile)
	content := read(t, dir, CertFile)

	must(t, os.WriteFile(path, content[:len(content)/2], 0o644))
	until(t, func() bool { return f.Problem() != nil })
	if leafSerial(t, f) != good {
		t.Error("half a certificate replaced a good one")
	}
	if !strings.Contains(f.Problem().Error(), path) {
		t.Errorf("the problem does not name the file: %v", f.Problem())
	}
	must(t, os.WriteFile(path, content, 0o644))
	until(t, func() bool { return f.Problem() == nil })

	other, err := NewCA()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, CAFile), other.CertPEM(), 0o644))
	until(t, func() bool { return f.Problem() != nil })
	if leafSerial(t, f) != good {
		t.Error("roots that our certificate does not lead to were taken over")
	}
}

// kubelet mounts a Secret as links through ..data, which it swaps by a rename.
func TestFilesFollowKubelet(t *testing.T) {
	dir := t.TempDir()
	version := func(name string) {
		must(t, WriteDir(filepath.Join(dir, name), web, time.Hour))
		must(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1")
	for _, name := range []string{CertFile, KeyFile, CAFile} {
		must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	f := running(t, dir)
	changed := f.Changed()
	version("..2")
	within(t, changed)
	must(t, os.RemoveAll(filepath.Join(dir, "..1")))
	changed = f.Changed()
	version("..3")
	within(t, changed)
	must(t, f.Problem())
}

func TestNewFilesSaysWhatIsWrong(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(dir string)
		want  string
	}{
		"no key": {func(dir string) { must(t, os.Remove(filepath.Join(dir, KeyFile))) }, KeyFile},
		"key of another": {func(dir string) {
			other := t.TempDir()
			must(t, WriteDir(other, web, time.Hour))
			must(t, os.Rename(filepath.Join(other, KeyFile), filepath.Join(dir, KeyFile)))
		}, "private key does not match"},
		"key among the roots": {func(dir string) {
			must(t, os.Rename(filepath.Join(dir, CAKeyFile), filepath.Join(dir, CAFile)))
		}, `PEM block "PRIVATE KEY"`},
		"truncated roots": {func(dir string) {
			ca := read(t, dir, CAFile)
			must(t, os.WriteFile(filepath.Join(dir, CAFile), append(ca, ca[:100]...), 0o644))
		}, "incomplete PEM block"},
		"expired": {func(dir string) {
			ca, err := LoadCA(read(t, dir, CAFile), read(t, dir, CAKeyFile))
			must(t, err)
			cert, err := ca.Issue(web, -time.Minute)
			must(t, err)
			must(t, WritePair(dir, cert))
		}, "expired"},
	} {
		dir := t.TempDir()
		must(t, WriteDir(dir, web, time.Hour))
		row.spoil(dir)
		if _, err := open(dir); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

func TestCurrentBeforeTheFirst(t *testing.T) {
	var c Current
	if _, err := c.Certificate(); err == nil {
		t.Error("a certificate out of nothing")
	}
	if c.Roots() != nil {
		t.Error("roots out of nothing")
	}
	if _, _, err := c.Identity(); err == nil {
		t.Error("an identity out of nothing")
	}
}
