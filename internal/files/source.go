package files

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/compile"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Options of a [Source].
type Options struct {
	// Path is a folder, which is read with all below it, or a file.
	Path string
	// Gateway is which one we are, as "namespace/name". Empty: the only one of
	// class [Class].
	Gateway string
	// Translate holds what else translation depends on. The source fills in the
	// gateway, and UnlabelledMeansAll.
	Translate translate.Options
	Log       *slog.Logger // nil: none
}

// Source reads manifests and keeps a mesh.Store up to date with them. Load is to
// be called once, then Run.
type Source struct {
	options Options
	log     *slog.Logger

	// Owned by Load, then by Run.
	manifests  map[string]*manifest // by name
	claims     *claims
	applied    map[translate.Key]*object // what the translator was told
	translator *translate.Translator
	store      *mesh.Store
	builder    *mesh.Builder
	refused    map[string]string // what the builder was told, reasons by object
	outside    []Problem         // of the folder itself and of what in it cannot be listed
	// uncompiled are resources that translation let pass and compilation did not,
	// by key. One of the two is wrong then.
	uncompiled map[string]Problem
	watch      func(dirs []string) (added bool)

	mu       sync.Mutex // guards problems and stats
	problems []Problem
	stats    Stats
}

// Stats say how the source is doing.
type Stats struct {
	Files, Documents, Objects int
	Decoded                   int       // documents, since the start
	Edits                     int       // changes that were published after the first load
	LastEdit                  time.Time // when the last one was in force
	// LastTook and LongestTook are the times from an event in the folder to the
	// publication of what it changed.
	LastTook, LongestTook time.Duration
}

// New makes a source that publishes to store.
func New(o Options, store *mesh.Store) *Source {
	s := &Source{
		options:    o,
		log:        o.Log,
		manifests:  make(map[string]*manifest),
		claims:     newClaims(),
		applied:    make(map[translate.Key]*object),
		store:      store,
		builder:    mesh.NewBuilder(store),
		refused:    make(map[string]string),
		uncompiled: make(map[string]Problem),
		watch:      func([]string) bool { return false },
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Load reads everything for the first time, chooses the gateway, and publishes
// the first snapshot. It fails if the path cannot be read, or, with a
// *[GatewayError], if it is not clear which gateway we are; whatever else is
// wrong is among [Source.Problems].
func (s *Source) Load() error {
	touched, _, err := s.scan(time.Now())
	if err != nil {
		return err
	}
	gateway, err := s.chooseGateway()
	if err != nil {
		return err
	}
	s.start(gateway)
	s.apply(touched)
	s.log.Info("configuration loaded", slog.String("path", s.options.Path), slog.String("gateway", gateway.Namespace+"/"+gateway.Name),
		slog.Int("files", s.stats.Files), slog.Int("objects", s.stats.Objects))
	return nil
}

// start makes the translator for the gateway that was chosen.
func (s *Source) start(gateway translate.Key) {
	o := s.options.Translate
	o.GatewayNamespace, o.GatewayName = gateway.Namespace, gateway.Name
	o.UnlabelledMeansAll = true
	s.translator = translate.New(o)
}

// Problems lists what is wrong with the folder and the objects in it, by file
// and line.
func (s *Source) Problems() []Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems
}

// Stats returns how the source is doing.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// scan looks through the folder and reads what changed. It returns the objects
// that this makes a difference for, and when to look again although nothing
// happens; zero for never.
func (s *Source) scan(now time.Time) (touched map[translate.Key]struct{}, again time.Time, err error) {
	l, err := list(s.options.Path)
	if err != nil {
		return nil, time.Time{}, err
	}
	for s.watch(l.dirs) { // what happened before a directory was watched went unnoticed
		if l, err = list(s.options.Path); err != nil {
			return nil, time.Time{}, err
		}
	}
	s.outside = l.problems
	touched = make(map[translate.Key]struct{})
	seen := make(map[string]bool, len(l.files))
	look := func(m *manifest, next time.Time) {
		if !next.IsZero() && (again.IsZero() || next.Before(again)) {
			again = next
		}
		if m.changed {
			m.changed = false
			s.claims.update(m, touched)
		}
	}
	for _, f := range l.files {
		seen[f.name] = true
		m := s.manifests[f.name]
		if m == nil {
			m = &manifest{cut: s.translator == nil} // at the first load nothing is awaited
			s.manifests[f.name] = m
		}
		look(m, m.refresh(f, now))
	}
	for name, m := range s.manifests {
		if seen[name] || l.unreadable(name) {
			continue
		}
		look(m, m.vanish(now))
		if len(m.missing) == 0 {
			delete(s.manifests, name)
		}
	}
	return touched, again, nil
}

// refresh looks at the folder and brings what changed into force. It returns
// when to look again although nothing happens, and whether there was a change.
func (s *Source) refresh(now time.Time) (again time.Time, changed bool) {
	touched, again, err := s.scan(now)
	if err != nil {
		s.outside = []Problem{{File: s.options.Path, Fault: err.Error(), Cure: "what was read before stays in force"}}
	}
	return again, s.apply(touched)
}

// apply brings the objects that were touched through translation and
// compilation into force. It reports whether that made a difference.
func (s *Source) apply(touched map[translate.Key]struct{}) bool {
	for key := range touched {
		winner, ok := s.claims.decide(key)
		switch o := winner.object; {
		case !ok:
			delete(s.applied, key)
			s.translator.Delete(key)
		case s.applied[key] == o:
		case o.rejected != nil:
			s.applied[key] = o
			s.translator.Reject(o.rejected)
		default:
			s.applied[key] = o
			s.translator.Set(o.value)
		}
	}
	changes := s.translator.Update()
	for _, key := range changes.Removed {
		delete(s.uncompiled, key.String())
		for _, part := range compile.Keys(key) {
			s.builder.Remove(part)
		}
	}
	for _, resource := range changes.Upserted {
		part, err := compile.Part(resource), compile.Check(resource)
		if err != nil {
			s.uncompiled[resource.Key.String()] = Problem{Object: resource.Key.String(), Fault: err.Error()}
		} else {
			delete(s.uncompiled, resource.Key.String())
		}
		if err == nil || !s.builder.Has(part.PartKey()) { // else the last good one stays
			s.builder.Set(part)
		}
	}
	s.report()
	before := s.store.Load()
	return s.builder.Publish() != before
}

// report collects the problems, logs those that are new, and tells the builder
// what was refused.
func (s *Source) report() {
	problems := s.collectProblems()
	reasons := make(map[string]string)
	for _, p := range problems {
		if p.Warning {
			continue
		}
		name := cmp.Or(p.Object, p.Where())
		if reasons[name] != "" {
			reasons[name] += "; "
		}
		reasons[name] += p.reason()
	}
	for name := range s.refused {
		if reasons[name] == "" {
			s.builder.Reject(name, "")
		}
	}
	for name, reason := range reasons {
		s.builder.Reject(name, reason)
	}
	s.refused = reasons
	s.logNew(problems)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = problems
	s.stats.Files, s.stats.Objects = len(s.manifests), len(s.applied)
	s.stats.Documents, s.stats.Decoded = 0, 0
	for _, m := range s.manifests {
		s.stats.Documents += len(m.docs)
		s.stats.Decoded += m.decoded
	}
}

func (s *Source) logNew(problems []Problem) {
	known := make(map[Problem]bool, len(s.problems))
	for _, p := range s.problems {
		p.Line = 0 // moves with every edit above it
		known[p] = true
	}
	for _, p := range problems {
		unplaced := p
		unplaced.Line = 0
		switch {
		case known[unplaced]:
		case p.Warning:
			s.log.Warn("configuration", slog.String("problem", p.String()))
		default:
			s.log.Error("configuration", slog.String("problem", p.String()))
		}
	}
}

// collectProblems lists all that is wrong, by file and line.
func (s *Source) collectProblems() []Problem {
	problems := slices.Concat(s.outside, s.claims.duplicates(), s.ignored())
	for _, m := range s.manifests {
		problems = append(problems, m.problems()...)
	}
	for _, p := range s.uncompiled {
		problems = append(problems, p)
	}
	for _, p := range s.translator.AllProblems() {
		problems = append(problems, s.place(p))
	}
	slices.SortFunc(problems, compareProblems)
	return slices.Compact(problems)
}

// place finds the document that a problem of translation is about.
func (s *Source) place(p translate.Problem) Problem {
	placed := Problem{
		Object: p.Object.String(), Field: p.Field, Fault: p.Fault, Cure: p.Cure,
		Warning: p.Severity == translate.Warning,
	}
	if winner, ok := s.claims.decide(p.Object); ok {
		placed.File, placed.Line = winner.file.name, winner.object.doc.line
	}
	return placed
}

// ignored names each kind that is not read, where it is found first.
func (s *Source) ignored() (problems []Problem) {
	found := make(map[string]*Problem)
	count := make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(s.manifests)) {
		for _, d := range s.manifests[name].docs {
			for _, kind := range d.ignored {
				if count[kind]++; count[kind] == 1 {
					found[kind] = &Problem{File: name, Line: d.line, Warning: true}
				}
			}
		}
	}
	for kind, p := range found {
		p.Fault = fmt.Sprintf("%s is not a kind that a waypoint reads: ignored", kind)
		if n := count[kind]; n > 1 {
			p.Fault += fmt.Sprintf(", as %d more are", n-1)
		}
		problems = append(problems, *p)
	}
	return problems
}
