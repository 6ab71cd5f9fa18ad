package files

import (
	"context"
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
	inventory  *inventory
	applied    map[translate.Key]*object // what the translator was told
	gateway    translate.Key             // who we are; none: not clear, which validation allows
	translator *translate.Translator
	store      *mesh.Store
	builder    *mesh.Builder
	refused    map[string]string // what the builder was told, reasons by object
	// uncompiled are resources that translation let pass and compilation did not,
	// by key. One of the two is wrong then.
	uncompiled map[string]Problem

	mu       sync.Mutex // guards problems and stats
	problems []Problem
	stats    Stats
}

// Stats say how the source is doing.
type Stats struct {
	Files, Documents, Objects int
	Decoded                   int       // documents, since the start
	Edits                     int       // changes that were published after the first load
	LastEdit                  time.Time // when the last one was in force; until there is one, the load
	// LastTook and LongestTook are the times from an event in the folder to the
	// publication of what it changed.
	LastTook, LongestTook time.Duration
}

// New makes a source that publishes to store.
func New(o Options, store *mesh.Store) *Source {
	s := &Source{
		options:    o,
		log:        o.Log,
		inventory:  newInventory(o.Path),
		applied:    make(map[translate.Key]*object),
		store:      store,
		builder:    mesh.NewBuilder(store),
		refused:    make(map[string]string),
		uncompiled: make(map[string]Problem),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Load reads everything for the first time, chooses the gateway, and publishes
// the first snapshot. It fails if the path cannot be read, if it is not clear
// which gateway we are (*[GatewayError]), or if that one is refused; whatever
// else is wrong is among [Source.Problems].
func (s *Source) Load() error {
	if err := s.inventory.lookThrough(time.Now()); err != nil {
		return err
	}
	gateway, err := s.chooseGateway()
	if err != nil {
		s.logNew(s.inventory.problems()) // it may be in what cannot be read
		return err
	}
	s.start(gateway)
	s.apply()
	if s.store.Load().Gateway.Name == "" {
		return fmt.Errorf("%s is refused: %s", gateway, s.refused[gateway.String()])
	}
	s.mu.Lock()
	s.stats.LastEdit = time.Now()
	s.mu.Unlock()
	s.log.Info("configuration loaded", slog.String("path", s.options.Path), slog.String("gateway", name(gateway)),
		slog.Int("files", s.stats.Files), slog.Int("objects", s.stats.Objects))
	return nil
}

// start makes the translator for the gateway that was chosen.
func (s *Source) start(gateway translate.Key) {
	s.gateway = gateway
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

// apply brings what the last look at the folder found through translation and
// compilation into force. It reports whether that made a difference.
func (s *Source) apply() bool {
	s.inventory.changes(func(key translate.Key, o *object) {
		switch {
		case o == s.applied[key]:
			return
		case o == nil:
			delete(s.applied, key)
			s.translator.Delete(key)
			return
		case o.rejected != nil:
			s.translator.Reject(o.rejected)
		default:
			s.translator.Set(o.value)
		}
		s.applied[key] = o
	})
	s.compile()
	s.report()
	before := s.store.Load()
	now := s.builder.Publish()
	for _, c := range now.Conflicts {
		if !slices.Contains(before.Conflicts, c) {
			s.log.Warn("configuration", slog.String("problem", conflict(c).String()))
		}
	}
	return now != before
}

// conflict is what several services or workloads claim, as a problem.
func conflict(c mesh.Problem) Problem {
	return Problem{Fault: c.Object + " is " + c.Reason, Warning: true}
}

// compile hands the builder what is different in translation.
func (s *Source) compile() {
	changes := s.translator.Update()
	for _, key := range changes.Removed {
		delete(s.uncompiled, key.String())
		for _, part := range compile.Keys(key) {
			s.builder.Remove(part)
		}
	}
	for _, resource := range changes.Upserted {
		part, err := compile.Part(resource)
		if err == nil {
			delete(s.uncompiled, resource.Key.String())
		} else {
			s.uncompiled[resource.Key.String()] = Problem{Object: resource.Key.String(), Fault: err.Error()}
			if s.builder.Has(part.PartKey()) {
				continue // the last good version stays
			}
		}
		s.builder.Set(part)
	}
}

// report collects the problems, by file and line, logs those that are new, and
// tells the builder what was refused.
func (s *Source) report() {
	problems := slices.AppendSeq(s.inventory.problems(), maps.Values(s.uncompiled))
	for _, p := range s.translator.AllProblems() {
		problems = append(problems, s.inventory.place(p))
	}
	if s.gateway != (translate.Key{}) && s.applied[s.gateway] == nil {
		problems = append(problems, Problem{
			Object: s.gateway.String(), Fault: "the Gateway that this waypoint is was removed", Cure: "until it is back nothing is served",
		})
	}
	slices.SortFunc(problems, compareProblems)
	problems = slices.Compact(problems)

	refused := reasons(problems)
	for name := range s.refused {
		if refused[name] == "" {
			s.builder.Reject(name, "")
		}
	}
	for name, reason := range refused {
		s.builder.Reject(name, reason)
	}
	s.refused = refused
	s.logNew(problems)

	sums := s.inventory.sums()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = problems
	s.stats.Files, s.stats.Documents, s.stats.Decoded = sums.Files, sums.Documents, sums.Decoded
	s.stats.Objects = len(s.applied)
}

// logNew logs what was not there the last time, and what is no more.
func (s *Source) logNew(problems []Problem) {
	known := make(map[Problem]bool, len(s.problems))
	for _, p := range s.problems {
		known[p.unplaced()] = true
	}
	l := locator{inventory: s.inventory}
	for _, p := range problems {
		level := slog.LevelError
		if p.Warning {
			level = slog.LevelWarn
		}
		if known[p.unplaced()] {
			delete(known, p.unplaced())
		} else {
			s.log.LogAttrs(context.Background(), level, "configuration", slog.String("problem", l.locate(p).String()))
		}
	}
	for p := range known {
		s.log.Info("configuration", slog.String("no longer a problem", p.String()))
	}
}
