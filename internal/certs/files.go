package certs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long after the first event the files are read: three files
	// that are replaced one by one shall count as one change.
	settle = 100 * time.Millisecond
	// recheck catches what no event tells of: network file systems, a folder
	// that was removed and made again.
	recheck = 30 * time.Second
)

// Files is a certificate source that reads PEM files and follows their changes.
// Certificate, key and roots count as one: while they do not fit together the
// last good ones stay in force.
type Files struct {
	Current
	cert, key, roots string
	log              *slog.Logger
	seen             [sha256.Size]byte // of the contents last looked at; owned by Run once that is called
	problem          atomic.Pointer[error]
	failures         atomic.Uint64 // different ones, since the start
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

// Stats returns how the source is doing.
func (f *Files) Stats() Stats {
	s := f.Current.Stats()
	s.Failures = f.failures.Load()
	return s
}

// Problem returns why the files as they are now are not in force, nil if they
// are.
func (f *Files) Problem() error {
	if p := f.problem.Load(); p != nil {
		return *p
	}
	return nil
}

// Run follows the files until ctx ends. The error is of the watch itself.
func (f *Files) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching certificate files: %w", err)
	}
	defer watcher.Close()
	// Folders, not files: what replaces a file by a rename, or swaps the
	// ..data link as kubelet does, leaves a watch on the file with the old one.
	f.watch(watcher)
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	// What changed before the watches were in place has no event.
	f.reload()
	for settling := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			if !settling {
				settling = true
				timer.Reset(settle)
			}
		case err := <-watcher.Errors:
			f.log.Warn("watching certificate files: they are read again from time to time", "error", err)
		case <-timer.C:
			f.reload()
			f.watch(watcher)
			settling = false
			timer.Reset(recheck)
		}
	}
}

// watch adds the folders of the files. One that is watched already stays so.
func (f *Files) watch(watcher *fsnotify.Watcher) {
	dirs := []string{filepath.Dir(f.cert), filepath.Dir(f.key), filepath.Dir(f.roots)}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if err := watcher.Add(dir); err != nil {
			f.log.Warn("cannot watch a folder of certificates: it is read again from time to time", "dir", dir, "error", err)
		}
	}
}

// reload puts changed files in force, or reports once why it cannot.
func (f *Files) reload() {
	err := f.load()
	before := f.Problem()
	f.problem.Store(&err)
	if err != nil && (before == nil || before.Error() != err.Error()) {
		f.failures.Add(1)
		f.log.Error("certificate files were not taken over: the last good ones stay in force", "error", err)
	}
}

// load reads the files and stores them if they changed and fit together.
func (f *Files) load() error {
	var content [3][]byte
	hash := sha256.New()
	for i, path := range []string{f.cert, f.key, f.roots} {
		var err error
		if content[i], err = os.ReadFile(path); err != nil {
			return err
		}
		fmt.Fprintf(hash, "%d:%s", len(content[i]), content[i])
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if sum == f.seen {
		return nil
	}
	cert, roots, err := ParsePair(content[0], content[1], content[2])
	if err != nil {
		return fmt.Errorf("%s, %s, %s: %w", f.cert, f.key, f.roots, err)
	}
	f.seen = sum
	f.Store(cert, roots)
	id, notAfter, err := f.Identity()
	if err != nil {
		return err
	}
	f.log.Info("certificate in force", "identity", id.String(), "until", notAfter.Format(time.RFC3339), "roots", len(roots))
	return nil
}
