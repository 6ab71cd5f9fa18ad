package main

import (
	"archive/tar"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var testBuild = build{version: "v1.2.3", commit: "0123456789ab", created: time.Unix(1700000000, 0).UTC()}

// written makes the layout of the first program from two that are none.
func written(t *testing.T, b build, content string) (path string, digest v1.Hash) {
	t.Helper()
	dir := t.TempDir()
	for _, architecture := range []string{"arm64", "amd64"} {
		file := filepath.Join(dir, "linux-"+architecture, programs[0].name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(architecture+content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(t.TempDir(), programs[0].name)
	digest, err := b.write(path, dir, programs[0])
	if err != nil {
		t.Fatal(err)
	}
	return path, digest
}

func images(t *testing.T, path string) map[string]v1.Image {
	t.Helper()
	index, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]v1.Image)
	for _, m := range manifest.Manifests {
		if all[m.Platform.String()], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestSameInputSameDigest(t *testing.T) {
	_, first := written(t, testBuild, "program")
	_, second := written(t, testBuild, "program")
	if first != second {
		t.Errorf("the same programs gave %s, then %s", first, second)
	}
	if _, other := written(t, testBuild, "another"); other == first {
		t.Error("another program gave the same digest")
	}
	later := testBuild
	later.version = "v1.2.4"
	if _, other := written(t, later, "program"); other == first {
		t.Error("another version gave the same digest")
	}
}

func TestLayout(t *testing.T) {
	path, _ := written(t, testBuild, "program")
	index, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	all := images(t, path)
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		if all[platform] == nil {
			t.Errorf("there is no image for %s", platform)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d images, want 2", len(all))
	}
}

func TestConfig(t *testing.T) {
	path, _ := written(t, testBuild, "program")
	config, err := images(t, path)["linux/arm64"].ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if uid, _, _ := strings.Cut(config.Config.User, ":"); strings.Trim(uid, "0123456789") != "" || uid == "0" {
		t.Errorf("user %q: a kubelet cannot tell that it is not root", config.Config.User)
	}
	if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/waypoint" {
		t.Errorf("entry point %q", got)
	}
	if config.Architecture != "arm64" || config.OS != "linux" {
		t.Errorf("platform %s/%s", config.OS, config.Architecture)
	}
	if got := config.Config.Labels["org.opencontainers.image.version"]; got != "v1.2.3" {
		t.Errorf("version %q", got)
	}
}

func TestFiles(t *testing.T) {
	path, _ := written(t, testBuild, "program")
	content := mutate.Extract(images(t, path)["linux/amd64"])
	defer content.Close()
	files := make(map[string]string)
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Mode&0o022 != 0 {
			t.Errorf("%s: owner %d, mode %o: what runs could change it", h.Name, h.Uid, h.Mode)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
		if h.Name == "waypoint" && h.Mode != 0o755 {
			t.Errorf("the program has mode %o", h.Mode)
		}
	}
	if len(files) != 2 || files["waypoint"] != "amd64program" {
		t.Errorf("files %v, the program is %q", len(files), files["waypoint"])
	}
	trusted(t, files[strings.TrimPrefix(rootsPath, "/")])
}

// trusted wants many roots that Go can read, and no other blocks.
func trusted(t *testing.T, bundle string) {
	t.Helper()
	n := 0
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			t.Errorf("block %d, %s: %v", n, block.Type, err)
		}
		n++
	}
	if n < 80 {
		t.Errorf("only %d roots", n)
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	path, digest := written(t, testBuild, "program")
	pushed, err := push(t.Context(), path, strings.TrimPrefix(server.URL, "http://")+"/mesh/waypoint:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(pushed, "/mesh/waypoint:v1.2.3@"+digest.String()) {
		t.Errorf("pushed as %s, want digest %s", pushed, digest)
	}
	reference, err := name.ParseReference(pushed)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
}

func TestNothingToMakeImagesOf(t *testing.T) {
	_, err := testBuild.write(filepath.Join(t.TempDir(), "x"), t.TempDir(), programs[0])
	if err == nil || !strings.Contains(err.Error(), "make images") {
		t.Errorf("got %v, want what to do", err)
	}
	_, err = push(t.Context(), filepath.Join(t.TempDir(), "x"), "localhost:1/waypoint:dev")
	if err == nil || !strings.Contains(err.Error(), "make images") {
		t.Errorf("got %v, want what to do", err)
	}
}
