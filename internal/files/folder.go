package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// found is one file of manifests in the folder.
type found struct {
	name string // as people know it: below the path they gave
	real string // without symbolic links: its identity
	info fs.FileInfo
}

// listing is all that a folder holds.
type listing struct {
	files []found // ordered by name
	// dirs are the directories in which something can happen that changes the
	// listing: those of the folder, and those that links lead to.
	dirs []string
	// problems are the directories and files that could not be read, by name.
	problems []Problem
}

// list looks through a folder and all below it, or at a single file. Links are
// followed, but nothing is listed twice, however many lead to it; names that
// begin with a dot are left out, which editors and kubelet use for what is not
// meant to be read. Only an unreadable root is an error.
func list(root string) (listing, error) {
	w := walker{seen: make(map[string]bool), watched: make(map[string]bool)}
	info, err := os.Stat(root)
	if err != nil {
		return listing{}, fmt.Errorf("configuration: %w", err)
	}
	path, err := filepath.EvalSymlinks(root)
	if err != nil {
		return listing{}, fmt.Errorf("configuration: %w", err)
	}
	if info.IsDir() {
		err = w.dir(root, path)
	} else {
		w.file(root, path, info)
		w.watch(filepath.Dir(root))
	}
	if err != nil {
		return listing{}, fmt.Errorf("configuration: %w", err)
	}
	slices.SortFunc(w.files, func(a, b found) int { return strings.Compare(a.name, b.name) })
	return w.listing, nil
}

// unreadable reports whether a file of that name may be there although it is not
// listed: because it, or a directory above it, could not be read.
func (l *listing) unreadable(name string) bool {
	return slices.ContainsFunc(l.problems, func(p Problem) bool {
		rest, ok := strings.CutPrefix(name, p.File)
		return ok && (rest == "" || rest[0] == filepath.Separator)
	})
}

type walker struct {
	listing
	seen    map[string]bool // real paths of files and directories
	watched map[string]bool // dirs
}

// watch notes a directory, by its real path or any other.
func (w *walker) watch(dir string) {
	if !w.watched[dir] {
		w.watched[dir] = true
		w.dirs = append(w.dirs, dir)
	}
}

func (w *walker) dir(name, path string) error {
	if w.seen[path] {
		return nil
	}
	w.seen[path] = true
	w.watch(path)
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			w.entry(filepath.Join(name, e.Name()), filepath.Join(path, e.Name()), e.Type())
		}
	}
	return nil
}

// entry lists one entry of a directory. What is gone by now was never there.
func (w *walker) entry(name, path string, mode fs.FileMode) {
	if !mode.IsDir() && mode&fs.ModeSymlink == 0 && !isManifest(name) {
		return
	}
	info, err := os.Stat(path)
	if err == nil && mode&fs.ModeSymlink != 0 {
		if info.IsDir() || isManifest(name) {
			path, err = filepath.EvalSymlinks(path)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && mode&fs.ModeSymlink == 0:
		return
	case err != nil:
		err = fmt.Errorf("cannot be read: %w", err)
	case info.IsDir():
		err = w.dir(name, path)
	case isManifest(name):
		w.file(name, path, info)
	}
	if err != nil {
		w.problems = append(w.problems, Problem{File: name, Fault: err.Error()})
	}
}

func (w *walker) file(name, path string, info fs.FileInfo) {
	if w.seen[path] {
		return
	}
	w.seen[path] = true
	w.watch(filepath.Dir(path))
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		w.problems = append(w.problems, Problem{File: name, Fault: "cannot be read: not a regular file"})
		return
	}
	w.files = append(w.files, found{name, path, info})
}

// isManifest goes by the ending of the name.
func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
