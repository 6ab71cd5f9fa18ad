package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/waypoint-mesh/waypoint/internal/mesh"
)

// running is a source that follows its folder.
type running struct {
	*folder
	changed chan struct{}
}

func run(t testing.TB, f *folder) *running {
	return start(t, f, func(ctx context.Context) { f.Run(ctx) })
}

// follow is run without a watcher.
func follow(t testing.TB, f *folder, every time.Duration, errs chan error) *running {
	return start(t, f, func(ctx context.Context) { newFollower(f.Source, every).loop(ctx, nil, errs) })
}

func start(t testing.TB, f *folder, loop func(context.Context)) *running {
	r := &running{f, make(chan struct{}, 1)}
	unsubscribe := f.store.Subscribe(func(_, _ *mesh.Snapshot) {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); loop(ctx) }()
	t.Cleanup(func() { cancel(); <-done; unsubscribe() })
	return r
}

// await waits until the services are in force.
func (r *running) await(want string) {
	r.t.Helper()
	r.until(func() bool { return r.services() == want }, func() string {
		return fmt.Sprintf("services %q, want %q; problems %v", r.services(), want, r.Problems())
	})
}

func (r *running) until(held func() bool, state func() string) {
	r.t.Helper()
	timeout := time.After(10 * time.Second)
	for !held() {
		select {
		case <-r.changed:
		case <-timeout:
			r.t.Fatal(state())
		}
	}
}

func TestRun(t *testing.T) {
	r := run(t, load(t, "m.yaml="+svc("a", "10.0.0.1")))
	r.write("m.yaml", svc("a", "10.0.0.2"))
	r.await("a:10.0.0.2")
	r.rename("m.yaml", svc("a", "10.0.0.3"))
	r.await("a:10.0.0.3")
	r.write("x/y/n.yaml", svc("b", "10.0.1.1"))
	r.await("a:10.0.0.3 b:10.0.1.1")
	r.write("x/y/n.yaml", svc("b", "10.0.1.2"))
	r.await("a:10.0.0.3 b:10.0.1.2")
	r.must(os.Rename(r.root+"/x", r.root+"/z"))
	r.write("z/y/n.yaml", svc("b", "10.0.1.3"))
	r.await("a:10.0.0.3 b:10.0.1.3")
	r.remove("z")
	r.await("a:10.0.0.3")
	r.write("z/y/n.yaml", svc("b", "10.0.1.4"))
	r.await("a:10.0.0.3 b:10.0.1.4")
	if s := r.Stats(); s.Edits < 7 || s.LastTook <= 0 || s.LongestTook < s.LastTook || s.LastEdit.IsZero() {
		t.Errorf("stats %+v", s)
	}
}

func TestRunFollowsLinks(t *testing.T) {
	elsewhere := tree(t, "m.yaml="+svc("a", "10.0.0.1"), "v1/n.yaml="+svc("b", "10.0.1.1"), "v2/n.yaml="+svc("b", "10.0.1.2"))
	f := load(t, "m.yaml=-> "+elsewhere+"/m.yaml", "n=-> "+elsewhere+"/v1")
	r := run(t, f)
	r.await("a:10.0.0.1 b:10.0.1.1")
	put(t, elsewhere+"/m.yaml", svc("a", "10.0.0.2"))
	r.await("a:10.0.0.2 b:10.0.1.1")
	put(t, r.root+"/.n", "-> "+elsewhere+"/v2")
	r.must(os.Rename(r.root+"/.n", r.root+"/n"))
	r.await("a:10.0.0.2 b:10.0.1.2")
}

func TestRunFollowsAReplacedFolder(t *testing.T) {
	above := tree(t, "v1/m.yaml="+docs(gatewayText, svc("a", "10.0.0.1")), "v2/m.yaml="+docs(gatewayText, svc("a", "10.0.0.2")), "conf=-> v1")
	f := &folder{t: t, root: filepath.Join(above, "conf")}
	f.Source = New(Options{Path: f.root}, new(mesh.Store))
	f.must(f.Load())
	r := run(t, f)
	put(t, above+"/next", "-> v2")
	r.must(os.Rename(above+"/next", above+"/conf"))
	r.await("a:10.0.0.2")
	put(t, above+"/v2/m.yaml", docs(gatewayText, svc("a", "10.0.0.3")))
	r.await("a:10.0.0.3")
}

func TestRunFollowsKubelet(t *testing.T) {
	f := kubelet(t, svc("a", "10.0.0.1"))
	r := run(t, f)
	for i := range 5 {
		vip := fmt.Sprint("10.0.1.", i)
		f.swap(i+2, svc("a", vip))
		r.await("a:" + vip)
	}
}

// TestLoopWithoutWatcher: where nothing can be watched, looking now and then
// does, and so it does after events were lost.
func TestLoopWithoutWatcher(t *testing.T) {
	t.Run("every now and then", func(t *testing.T) {
		r := follow(t, load(t), time.Millisecond, nil)
		r.write("m.yaml", svc("a", "10.0.0.1"))
		r.await("a:10.0.0.1")
	})
	t.Run("after lost events", func(t *testing.T) {
		errs := make(chan error)
		r := follow(t, load(t), time.Hour, errs)
		errs <- fsnotify.ErrEventOverflow // the loop runs: its first look is over
		r.write("m.yaml", svc("a", "10.0.0.1"))
		errs <- fsnotify.ErrEventOverflow
		r.await("a:10.0.0.1")
	})
}

// TestNotes: what happens decides how much is looked at.
func TestNotes(t *testing.T) {
	f := load(t, "a.yaml="+svc("a", "10.0.0.1"))
	tests := []struct {
		name    string
		event   fsnotify.Event
		written bool // that file alone
		more    bool // everything
	}{
		{"written", fsnotify.Event{Name: f.root + "/a.yaml", Op: fsnotify.Write}, true, false},
		{"rights", fsnotify.Event{Name: f.root + "/a.yaml", Op: fsnotify.Chmod}, true, false},
		{"replaced", fsnotify.Event{Name: f.root + "/a.yaml", Op: fsnotify.Create}, false, true},
		{"gone", fsnotify.Event{Name: f.root + "/a.yaml", Op: fsnotify.Remove}, false, true},
		{"new", fsnotify.Event{Name: f.root + "/b", Op: fsnotify.Create}, false, true},
		{"link swapped", fsnotify.Event{Name: f.root + "/..data", Op: fsnotify.Create}, false, true},
		{"rights of the folder", fsnotify.Event{Name: f.root, Op: fsnotify.Chmod}, false, true},
		{"something that is not read", fsnotify.Event{Name: f.root + "/.a.yaml.swp", Op: fsnotify.Write}, false, false},
		{"a neighbour", fsnotify.Event{Name: f.root + "x", Op: fsnotify.Create}, false, false},
		{"the folder itself", fsnotify.Event{Name: f.root, Op: fsnotify.Create}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newFollower(f.Source, time.Hour)
			w.dirs = map[string]bool{f.root: true}
			w.note(tt.event)
			if written := len(w.written) == 1; written != tt.written || w.more != tt.more {
				t.Errorf("one file: %v, everything: %v; want %v, %v", written, w.more, tt.written, tt.more)
			}
		})
	}
}

func TestRunFollowsOneFile(t *testing.T) {
	root := tree(t, "m.yaml="+docs(gatewayText, svc("a", "10.0.0.1")), "other.yaml="+svc("b", "10.0.0.9"))
	f := &folder{t: t, root: root}
	f.Source = New(Options{Path: filepath.Join(root, "m.yaml")}, new(mesh.Store))
	f.must(f.Load())
	r := run(t, f)
	r.rename("m.yaml", docs(gatewayText, svc("a", "10.0.0.2")))
	r.await("a:10.0.0.2")
}

// TestNoGap edits a file in the ways that leave it out or cut short for a
// moment, and asserts that nobody ever saw the service gone.
func TestNoGap(t *testing.T) {
	f := load(t, "m.yaml="+docs(svc("a", "10.0.0.1"), svc("b", "10.0.0.2")))
	gaps := 0
	f.store.Subscribe(func(_, is *mesh.Snapshot) {
		if len(is.Services) < 2 {
			gaps++
		}
	})
	r := run(t, f)
	for i := range 30 {
		vip := fmt.Sprint("10.0.1.", i)
		content := docs(svc("a", vip), svc("b", "10.0.0.2"))
		switch i % 3 {
		case 0: // with a copy kept, as vim does
			r.must(os.Rename(r.root+"/m.yaml", r.root+"/m.yaml~"))
			r.write("m.yaml", content)
		case 1: // in pieces
			file, err := os.Create(r.root + "/m.yaml")
			r.must(err)
			for piece := range slices.Chunk([]byte(content), 40) {
				_, err := file.Write(piece)
				r.must(err)
			}
			r.must(file.Close())
		default:
			r.rename("m.yaml", content)
		}
		r.await("a:" + vip + " b:10.0.0.2")
	}
	if gaps > 0 {
		t.Errorf("%d snapshots lacked a service", gaps)
	}
}

// BenchmarkEdit is an edit of one route among 5,000, from the writing of the
// file to the snapshot, 2 ms of waiting for more included. At most 30 ms are
// wanted of the slowest in a hundred.
func BenchmarkEdit(b *testing.B) {
	const routes, services = 5000, 500
	var head strings.Builder
	head.WriteString(gatewayText)
	for i := range services {
		head.WriteString("---" + svc(fmt.Sprint("s", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
	}
	texts := make([]string, routes)
	for i := range texts {
		texts[i] = fmt.Sprintf(routeText, i, i%services, i)
	}
	edits := routes // numbers of paths that were not there before
	for _, files := range []int{1, 5000} {
		b.Run(fmt.Sprintf("routes=%d/files=%d", routes, files), func(b *testing.B) {
			root := b.TempDir()
			write := func(i int) {
				per := routes / files
				first := i / per * per
				text := strings.Join(texts[first:first+per], "")
				if err := os.WriteFile(fmt.Sprintf("%s/r%d.yaml", root, i/per), []byte(text), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			if err := os.WriteFile(root+"/0.yaml", []byte(head.String()), 0o644); err != nil {
				b.Fatal(err)
			}
			for i := 0; i < routes; i += routes / files {
				write(i)
			}
			f := &folder{root: root, Source: New(Options{Path: root}, new(mesh.Store))}
			start := time.Now()
			if err := f.Load(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/load")
			r := run(b, f)
			var took []time.Duration
			for n := 0; b.Loop(); n++ {
				i := n * 7 % routes
				edits++
				texts[i] = fmt.Sprintf(routeText, i, i%services, edits)
				was := f.store.Load().Version
				start := time.Now()
				write(i)
				for f.store.Load().Version == was {
					<-r.changed
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
