package main

import (
	"context"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// write makes the layout of a program anew: one image index, tagged with the version.
func (b build) write(path, dir string, p program) (v1.Hash, error) {
	index, err := b.index(dir, p)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := os.RemoveAll(path); err != nil {
		return v1.Hash{}, err
	}
	tagged := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add:        index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": b.version}},
	})
	if _, err := layout.Write(path, tagged); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// push copies the image index of a layout to a registry. The result is its name with the digest.
func push(ctx context.Context, path, to string) (string, error) {
	tag, err := name.NewTag(to)
	if err != nil {
		return "", err
	}
	index, err := read(path)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return tag.Name() + "@" + digest.String(), err
}

// read finds the image index in a layout.
func read(path string) (v1.ImageIndex, error) {
	outer, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("%w: `make images` makes it", err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s: want one image index in it, found %d: `make images` makes it", path, len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}
