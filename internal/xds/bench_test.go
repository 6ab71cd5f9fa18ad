package xds_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	waypointv1 "github.com/waypoint-mesh/waypoint/api/waypoint/v1"
	"github.com/waypoint-mesh/waypoint/internal/mesh"
	"github.com/waypoint-mesh/waypoint/internal/meshtest"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

const benchServices, benchRoutes = 500, 5000

// town is a gateway with 500 services, an endpoint each, and 5,000 routes on them.
func town() (c translate.Changes) {
	c = upsert(gateway())
	for n := range benchServices {
		c.Upserted = append(c.Upserted, upsert(service(n), pod(n, service(n))).Upserted...)
	}
	for n := range benchRoutes {
		c.Upserted = append(c.Upserted, upsert(townRoute(n, 0)).Upserted...)
	}
	return c
}

// townRoute is one of them, whose path tells its version.
func townRoute(n, version int) *waypointv1.Route {
	s := service(n % benchServices)
	return route(fmt.Sprintf("r%d", n), s, service((n+1)%benchServices), fmt.Sprintf("/%d/%d", n, version))
}

// BenchmarkRouteChange is the time from the controller's Update with one changed
// route until it is in force, through TLS, with all that is measured in between:
// marshalling, the stream, decoding, checking, compiling, publishing.
func BenchmarkRouteChange(b *testing.B) {
	for _, state := range []bool{false, true} {
		b.Run(fmt.Sprintf("state=%v", state), func(b *testing.B) {
			m := meshtest.New(b)
			controller := m.Controller()
			controller.Update(ours, town())
			o := of(controller)
			if state {
				o.StateDir = filepath.Join(b.TempDir(), "state")
			}
			began := time.Now()
			c := follow(b, m, o)
			<-c.Whole()
			b.Logf("all of it in force %v after the start", time.Since(began).Round(time.Millisecond))
			c.awaitStep()
			live := make(chan struct{}, 1)
			c.store.Subscribe(func(_, _ *mesh.Snapshot) { live <- struct{}{} })
			var took []time.Duration
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				change := upsert(townRoute(n%benchRoutes, 1+n/benchRoutes))
				began := time.Now()
				controller.Update(ours, change)
				<-live
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}

// BenchmarkFirst is the time from the start of a waypoint to all of the town being
// in force, from the controller and from what was kept.
func BenchmarkFirst(b *testing.B) {
	for _, state := range []bool{false, true} {
		b.Run(fmt.Sprintf("state=%v", state), func(b *testing.B) {
			m := meshtest.New(b)
			controller := m.Controller()
			controller.Update(ours, town())
			o := of(controller)
			if state {
				o.StateDir = filepath.Join(b.TempDir(), "state")
				c := follow(b, m, o)
				<-c.Whole()
				c.end()
				controller.Stop()
			}
			b.ReportAllocs()
			for b.Loop() {
				c := follow(b, m, o)
				<-c.Whole()
				c.end()
			}
		})
	}
}
