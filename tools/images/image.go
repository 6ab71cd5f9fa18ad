package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is nobody in particular, as a number: a kubelet that is told runAsNonRoot compares numbers.
const user = "65532:65532"

// build is what all images have in common.
type build struct {
	version, commit string
	created         time.Time
}

// index makes an image of each architecture that there is a program for, in alphabetical order.
func (b build) index(dir string, p program) (v1.ImageIndex, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "linux-*", p.name))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there is no %s/linux-*/%s: `make images` builds them", dir, p.name)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, path := range paths {
		_, architecture, _ := strings.Cut(filepath.Base(filepath.Dir(path)), "-")
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		image, err := b.image(content, architecture, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return index, nil
}

func (b build) image(content []byte, architecture string, p program) (v1.Image, error) {
	bundle, err := roots()
	if err != nil {
		return nil, fmt.Errorf("roots: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, b.config(architecture, p))
	if err != nil {
		return nil, err
	}
	// The roots come first: that layer is the same for every program, architecture and version.
	var layers []mutate.Addendum
	for _, f := range []file{{rootsPath, 0o644, bundle}, {"/" + p.name, 0o755, content}} {
		layer, err := f.layer()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		layers = append(layers, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "COPY " + f.path, Created: v1.Time{Time: b.created}}})
	}
	return mutate.Append(base, layers...)
}

func (b build) config(architecture string, p program) *v1.ConfigFile {
	ports := make(map[string]struct{})
	for _, port := range p.ports {
		ports[port] = struct{}{}
	}
	return &v1.ConfigFile{
		OS: "linux", Architecture: architecture, Created: v1.Time{Time: b.created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/" + p.name}, WorkingDir: "/", User: user, ExposedPorts: ports,
			Labels: map[string]string{
				"org.opencontainers.image.title":       p.name,
				"org.opencontainers.image.description": p.title,
				"org.opencontainers.image.version":     b.version,
				"org.opencontainers.image.revision":    b.commit,
				"org.opencontainers.image.created":     b.created.Format(time.RFC3339),
				"org.opencontainers.image.source":      "https://github.com/waypoint-mesh/waypoint",
				"org.opencontainers.image.licenses":    "Apache-2.0",
			},
		},
	}
}
