package files

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// inventory is what a folder holds: its files, and from which each object is
// taken.
type inventory struct {
	path      string
	manifests map[string]*manifest // by name
	byReal    map[string]*manifest // those that are there, by real path
	claims    *claims
	outside   []Problem // of the folder itself and of what in it cannot be listed
	loaded    bool      // it was looked through before
	// watch is told of the directories of the folder, and reports whether one
	// is new.
	watch func(dirs []string) (added bool)

	touched map[translate.Key]struct{} // objects that may be taken from elsewhere now; see changes
	again   time.Time                  // when to look again although nothing happens; zero: never
}

func newInventory(path string) *inventory {
	return &inventory{
		path:      path,
		manifests: make(map[string]*manifest),
		claims:    newClaims(),
		touched:   make(map[translate.Key]struct{}),
		watch:     func([]string) bool { return false },
	}
}

// lookThrough looks through the whole folder and reads what changed. After an
// error everything is as it was.
func (i *inventory) lookThrough(now time.Time) error {
	l, err := list(i.path)
	for err == nil && i.watch(l.dirs) { // what happened before a directory was watched went unnoticed
		l, err = list(i.path)
	}
	if err != nil {
		i.outside = []Problem{{File: i.path, Fault: err.Error(), Cure: "what was read before stays in force"}}
		return err
	}
	i.again, i.outside = time.Time{}, l.problems
	i.byReal = make(map[string]*manifest, len(l.files))
	seen := make(map[string]bool, len(l.files))
	for _, f := range l.files {
		seen[f.name] = true
		m := i.manifests[f.name]
		if m == nil {
			m = &manifest{cut: !i.loaded} // at first nothing is awaited
			i.manifests[f.name] = m
		}
		i.byReal[f.real] = m
		i.take(m, m.refresh(f, now))
	}
	for name, m := range i.manifests {
		if seen[name] || l.unreadable(name) {
			continue
		}
		i.take(m, m.vanish(now))
		if len(m.missing) == 0 {
			delete(i.manifests, name)
		}
	}
	i.loaded = true
	return nil
}

// lookAt looks at some files, by their real paths. It reports false if the whole
// folder has to be looked through instead: because one is not where it was, or
// because something is awaited.
func (i *inventory) lookAt(reals map[string]bool, now time.Time) bool {
	if !i.again.IsZero() {
		return false
	}
	for path := range reals {
		m := i.byReal[path]
		info, err := os.Lstat(path)
		if m == nil || err != nil || !info.Mode().IsRegular() {
			return false
		}
		i.take(m, m.refresh(found{m.name, path, info}, now))
	}
	return true
}

// take takes in what is now in a file, which is to be looked at again at next.
func (i *inventory) take(m *manifest, next time.Time) {
	if !next.IsZero() && (i.again.IsZero() || next.Before(i.again)) {
		i.again = next
	}
	if len(m.touched) > 0 {
		i.claims.update(m)
		maps.Copy(i.touched, m.touched)
		m.touched = nil
	}
}

// changes calls visit for every object that may be taken from elsewhere than the
// last time; nil: from nowhere.
func (i *inventory) changes(visit func(translate.Key, *object)) {
	for key := range i.touched {
		winner, _ := i.claims.decide(key)
		visit(key, winner.object)
	}
	clear(i.touched)
}

// problems are those of files and documents, not of objects.
func (i *inventory) problems() []Problem {
	problems := slices.Concat(i.outside, i.claims.duplicates(), i.ignored())
	for _, m := range i.manifests {
		problems = append(problems, m.problems(i.claims)...)
	}
	return problems
}

// ignored names each kind that is not read, where it is found first.
func (i *inventory) ignored() (problems []Problem) {
	places := make(map[string][]Problem)
	for name, m := range i.manifests {
		for _, d := range m.odd {
			for _, kind := range d.ignored {
				places[kind] = append(places[kind], Problem{File: name, Line: d.line, Warning: true})
			}
		}
	}
	for kind, found := range places {
		first := slices.MinFunc(found, compareProblems)
		first.Fault = fmt.Sprintf("%s is not a kind that a waypoint reads: ignored", kind)
		if more := len(found) - 1; more > 0 {
			first.Fault += fmt.Sprintf(", as are %d more", more)
		}
		problems = append(problems, first)
	}
	return problems
}

// place finds the document that a problem of translation is about.
func (i *inventory) place(p translate.Problem) Problem {
	placed := Problem{
		Object: p.Object.String(), Field: p.Field, Fault: p.Fault, Cure: p.Cure,
		Warning: p.Severity == translate.Warning,
	}
	if winner, ok := i.claims.decide(p.Object); ok {
		doc := winner.object.doc
		placed.File, placed.Line = winner.file.name, doc.line
		if doc.broken != nil && p.Fault == doc.broken.Error() {
			placed.Line, placed.Fault = doc.faultLine()
		}
	}
	return placed
}

// sums counts files, documents and decoded documents.
func (i *inventory) sums() (s Stats) {
	s.Files = len(i.manifests)
	for _, m := range i.manifests {
		s.Documents += len(m.docs)
		s.Decoded += m.decoded
	}
	return s
}
