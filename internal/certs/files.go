package certs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
)

// Files is a certificate source that reads PEM files and follows their changes.
// Certificate, key and roots count as one: while they do not fit together the
// last good ones stay in force.
type Files struct {
	Current
	cert, key, roots string
	log              *slog.Logger
	seen             sum // of the contents last put in force; owned by Run once that is called
}

// NewFiles reads the files for the first time. The certificate file holds the
// leaf and then its intermediates.
func NewFiles(cert, key, roots string, log *slog.Logger) (*Files, error) {
	f := &Files{cert: cert, key: key, roots: roots, log: log}
	if err := f.load(); err != nil {
		return nil, err
	}
	return f, nil
}

// Run follows the files until ctx ends. The error is of the watch itself.
func (f *Files) Run(ctx context.Context) error {
	return follow(ctx, f.log, f.reload, f.cert, f.key, f.roots)
}

// reload puts changed files in force, or reports once why it cannot.
func (f *Files) reload() {
	err := f.load()
	if err == nil {
		f.settled()
		return
	}
	if before := f.Problem(); before == nil || before.Error() != err.Error() {
		f.failed(err)
		f.log.Error("certificate files were not taken over: the last good ones stay in force", "error", err)
	}
}

// load reads the files and stores them if they changed and fit together.
func (f *Files) load() error {
	var content [3][]byte
	for i, path := range []string{f.cert, f.key, f.roots} {
		var err error
		if content[i], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	now := sumOf(content[:]...)
	if now == f.seen {
		return nil
	}
	cert, roots, err := ParsePair(content[0], content[1], content[2])
	if err != nil {
		return fmt.Errorf("%s, %s, %s: %w", f.cert, f.key, f.roots, err)
	}
	f.seen = now
	f.Store(cert, roots)
	f.announce(f.log)
	return nil
}

// sum tells contents apart.
type sum [sha256.Size]byte

func sumOf(contents ...[]byte) sum {
	hash := sha256.New()
	for _, content := range contents {
		fmt.Fprintf(hash, "%d:%s", len(content), content)
	}
	return sum(hash.Sum(nil))
}
