package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// TestRuns starts what `make images` made, in a root that has nothing but the image and as the image's user: a program
// that needs a library, a shell or a folder of its own would fail.
func TestRuns(t *testing.T) {
	out := os.Getenv("IMAGES")
	switch {
	case out == "":
		t.Skip("IMAGES is not set to the folder of the layouts: make images")
	case os.Getuid() != 0:
		t.Skip("only root may change its root")
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			image := images(t, filepath.Join(out, p.name))["linux/"+runtime.GOARCH]
			if image == nil {
				t.Skipf("there is no image for linux/%s", runtime.GOARCH)
			}
			root := t.TempDir()
			unpack(t, mutate.Extract(image), root)
			cmd := exec.CommandContext(t.Context(), "/"+p.name, "--version")
			cmd.Dir, cmd.Env = "/", []string{}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
			said, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(said), p.name) {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
}

func unpack(t *testing.T, archive io.ReadCloser, root string) {
	t.Helper()
	defer archive.Close()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			path := filepath.Join(root, h.Name)
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), writeFile(path, r, os.FileMode(h.Mode)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeFile(path string, from io.Reader, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
