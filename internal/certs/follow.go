package certs

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long after the first event the files are read: files that
	// are replaced one by one shall count as one change.
	settle = 100 * time.Millisecond
	// recheck catches what no event tells of: network file systems, a folder
	// that was removed and made again.
	recheck = 30 * time.Second
)

// follow calls look until ctx ends: at once, soon after one of the files may have
// changed, and now and then. The error is of the watch itself.
func follow(ctx context.Context, log *slog.Logger, look func(), files ...string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching certificate files: %w", err)
	}
	defer watcher.Close()
	watch(watcher, log, files)
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	// What changed before the watches were in place has no event.
	look()
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
			log.Warn("watching certificate files: they are read again from time to time", "error", err)
		case <-timer.C:
			look()
			watch(watcher, log, files)
			settling = false
			timer.Reset(recheck)
		}
	}
}

// watch adds the folders of the files, and not the files: what replaces a file by
// a rename, or swaps the ..data link as kubelet does, leaves a watch on the file
// with the old one. A folder that is watched already stays so.
func watch(watcher *fsnotify.Watcher, log *slog.Logger, files []string) {
	dirs := make([]string, len(files))
	for i, file := range files {
		dirs[i] = filepath.Dir(file)
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if err := watcher.Add(dir); err != nil {
			log.Warn("cannot watch a folder of certificates: it is read again from time to time", "dir", dir, "error", err)
		}
	}
}
