package files

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing may happen in the folder before it is looked at,
	// so that what belongs together is taken together; patience is how long that
	// is waited for.
	quiet    = 2 * time.Millisecond
	patience = 20 * time.Millisecond
	// recheck finds what no event tells of: network file systems, links through
	// directories elsewhere.
	recheck = 30 * time.Second
	// poll takes its place where directories cannot be watched.
	poll = time.Second
)

// Run follows the folder until ctx ends. Nothing that happens in the folder ends
// it: what cannot be read keeps its earlier state.
func (s *Source) Run(ctx context.Context) {
	f := newFollower(s, recheck)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		s.log.Warn("directories cannot be watched, so they are looked at every second: raise fs.inotify.max_user_instances", slog.Any("error", err))
		f.every = poll
		f.loop(ctx, nil, nil)
		return
	}
	defer watcher.Close()
	f.watcher = watcher
	// So that a folder is noticed that is replaced as a whole. Where the parent
	// cannot be watched, recheck has to do.
	_ = watcher.Add(f.parent)
	s.inventory.watch = f.watchDirs
	f.loop(ctx, watcher.Events, watcher.Errors)
}

// follower is a source with the events of its folder.
type follower struct {
	*Source
	watcher *fsnotify.Watcher
	every   time.Duration
	dirs    map[string]bool // watched
	parent  string          // of the folder; watched only for the folder itself
	// What happened since the last look: files were written to, by real path, or
	// anything else.
	written map[string]bool
	more    bool
}

func newFollower(s *Source, every time.Duration) *follower {
	return &follower{
		Source:  s,
		every:   every,
		parent:  filepath.Dir(filepath.Clean(s.options.Path)),
		written: make(map[string]bool),
	}
}

// loop looks at the folder at once (it may have changed since Load), then
// whenever something happens.
func (f *follower) loop(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		var happened time.Time
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			happened = time.Now()
			f.more = true
		case e := <-events:
			if f.note(e); len(f.written) == 0 && !f.more {
				continue
			}
			happened = time.Now()
			f.settle(ctx, events)
		case err := <-errs: // events were lost, or a directory can no longer be watched
			happened = time.Now()
			f.more = true
			f.log.Warn("watching the configuration", slog.Any("error", err))
		}
		next.Reset(f.update(happened))
	}
}

// settle waits until nothing happens for a moment.
func (f *follower) settle(ctx context.Context, events <-chan fsnotify.Event) {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	calm := time.NewTimer(quiet)
	defer calm.Stop()
	for {
		select {
		case e := <-events:
			f.note(e)
			calm.Reset(quiet)
		case <-calm.C:
			return
		case <-enough.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// note remembers what happened. Most edits write to a file that is known, and
// then nothing else has to be looked at: that is worth 10 to 20 ms where there
// are 5,000 files.
func (f *follower) note(e fsnotify.Event) {
	dir := filepath.Dir(e.Name)
	switch {
	case dir == f.parent && !f.dirs[dir] && filepath.Base(e.Name) != filepath.Base(f.options.Path):
		// A neighbour of the folder.
	case e.Op&^(fsnotify.Write|fsnotify.Chmod) != 0 || f.dirs[e.Name]:
		f.more = true
	case f.inventory.byReal[e.Name] != nil:
		f.written[e.Name] = true
	}
}

// update brings what changed into force and returns how long to wait until
// looking again.
func (f *follower) update(happened time.Time) (wait time.Duration) {
	now := time.Now()
	if f.more || !f.inventory.lookAt(f.written, now) {
		_ = f.inventory.lookThrough(now) // the error is among the problems
	}
	f.more = false
	clear(f.written)
	if f.apply() {
		f.edited(time.Since(happened))
	}
	if again := f.inventory.again; !again.IsZero() {
		return min(f.every, max(time.Until(again), time.Millisecond))
	}
	return f.every
}

// edited counts a change that is in force.
func (f *follower) edited(took time.Duration) {
	f.log.Debug("configuration changed", slog.Uint64("version", f.store.Load().Version), slog.Duration("took", took))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Edits++
	f.stats.LastEdit = time.Now()
	f.stats.LastTook = took
	f.stats.LongestTook = max(f.stats.LongestTook, took)
}

// watchDirs watches the directories of a listing, and no others. It reports
// whether there is one that was not watched before. All are asked for each time:
// a directory that was removed and made again has lost its watch.
func (f *follower) watchDirs(dirs []string) (added bool) {
	listed := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		listed[dir] = true
		if err := f.watcher.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && f.every != poll {
			f.every = poll
			f.log.Warn("a directory cannot be watched, so all are looked at every second: raise fs.inotify.max_user_watches",
				slog.String("directory", dir), slog.Any("error", err))
		}
		added = added || !f.dirs[dir]
	}
	for dir := range f.dirs {
		if !listed[dir] && dir != f.parent {
			_ = f.watcher.Remove(dir) // fails for what is gone, whose watch is gone as well
		}
	}
	f.dirs = listed
	return added
}
