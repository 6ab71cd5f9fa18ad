package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/waypoint-mesh/waypoint/benchmarks/target"
)

// profile takes profiles of our waypoint, if that is asked for, from now on for the
// span. The function that it returns waits for them.
func (b *Bench) profile(ctx context.Context, i *target.Instance, s Scenario) func() error {
	if b.Profiles == "" || !i.Profiled() {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() { ended <- b.writeProfiles(ctx, i, s) }()
	return func() error { return <-ended }
}

func (b *Bench) writeProfiles(ctx context.Context, i *target.Instance, s Scenario) error {
	if err := os.MkdirAll(b.Profiles, 0o755); err != nil {
		return err
	}
	cpu := fmt.Sprintf("profile?seconds=%d", max(1, int(b.Span/time.Second)))
	return errors.Join(
		b.writeProfile(ctx, i, cpu, s.Name+".cpu.pprof"),
		b.writeProfile(ctx, i, "allocs", s.Name+".allocs.pprof"))
}

func (b *Bench) writeProfile(ctx context.Context, i *target.Instance, what, name string) (err error) {
	f, err := os.Create(filepath.Join(b.Profiles, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return i.Profile(ctx, what, f)
}
