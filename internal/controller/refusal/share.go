package refusal

import (
	"context"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
)

// Options of a [Share].
type Options struct {
	Known *Known
	// Rejections asks the discovery server of this replica.
	Rejections func(discovery.Gateway) []discovery.Rejection
	Client     client.Client
	// Namespace of the Leases, which is the controller's, and the name of ours,
	// which no other replica may have.
	Namespace, Name string
	FieldManager    string
	// Elected is closed when this replica comes to lead. Then it writes statuses
	// itself, so that nobody needs to be told, and removes the Leases of those that
	// vanished.
	Elected <-chan struct{}
	Log     *slog.Logger
}

// Share keeps Known up to date, and tells the other replicas.
type Share struct {
	o       Options
	changed workqueue.TypedInterface[discovery.Gateway]
	publish chan struct{} // holds one
	expires chan struct{} // holds one
}

// NewShare makes one, which Start starts.
func NewShare(o Options) *Share {
	return &Share{
		o: o, changed: workqueue.NewTyped[discovery.Gateway](), publish: make(chan struct{}, 1), expires: make(chan struct{}, 1),
	}
}

// Changed notes that the waypoints of a Gateway that are connected to this replica
// may refuse something else. It does not block.
func (s *Share) Changed(g discovery.Gateway) { s.changed.Add(g) }

// NeedLeaderElection has it run on every replica.
func (s *Share) NeedLeaderElection() bool { return false }

// Start runs until ctx ends.
func (s *Share) Start(ctx context.Context) error {
	go s.look()
	go s.forget(ctx)
	s.renew(ctx)
	s.changed.ShutDown()
	return nil
}

// look asks the discovery server about Gateways of which something changed.
func (s *Share) look() {
	for {
		g, end := s.changed.Get()
		if end {
			return
		}
		s.o.Known.setOwn(g, s.o.Rejections(g))
		signal(s.publish)
		s.changed.Done(g)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it was not noticed yet
	}
}

// again is when to try again what the API server refused.
const again = 2 * time.Second

// renew publishes what this replica knows: at once when it changes, and again and
// again as long as there is something.
func (s *Share) renew(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	there := false // our Lease
	elected := s.o.Elected
	for {
		select {
		case <-s.publish:
		case <-timer.C:
		case <-elected:
			elected = nil // it stays closed
		case <-ctx.Done():
			return
		}
		mine := s.o.Known.mine()
		if s.leads() {
			mine = nil
		}
		if len(mine) == 0 && !there {
			continue
		}
		wait := renewEvery
		if err := s.write(ctx, mine); err != nil {
			s.o.Log.Warn("what waypoints refuse could not be told to the replica that leads", slog.Any("error", err))
			wait = again
		} else {
			there = len(mine) > 0
		}
		timer.Reset(wait)
	}
}

func (s *Share) leads() bool {
	select {
	case <-s.o.Elected:
		return true
	default:
		return false
	}
}

func (s *Share) remove(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = s.o.Namespace, name
	return client.IgnoreNotFound(s.o.Client.Delete(ctx, lease))
}

func (s *Share) write(ctx context.Context, mine Rejections) error {
	if len(mine) == 0 {
		return s.remove(ctx, s.o.Name)
	}
	lease, err := leaseOf(s.o.Namespace, s.o.Name, mine, time.Now())
	if err != nil {
		return err
	}
	return s.o.Client.Apply(ctx, lease, client.FieldOwner(s.o.FieldManager), client.ForceOwnership)
}

// Follow has it told of the Leases of others by a cache, which needs to hold no
// others than those with [Label].
func (s *Share) Follow(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { s.take(obj) },
		UpdateFunc: func(before, obj any) {
			if before.(*coordinationv1.Lease).ResourceVersion != obj.(*coordinationv1.Lease).ResourceVersion {
				s.take(obj) // else it is listed again, and nobody has renewed it
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if lease, ok := obj.(*coordinationv1.Lease); ok && lease.Name != s.o.Name {
				s.o.Known.set(lease.Name, report{})
			}
		},
	})
	return err
}

func (s *Share) take(obj any) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Name == s.o.Name {
		return
	}
	r, err := reportOf(lease, time.Now())
	if err != nil {
		s.o.Log.Error("what another replica says of its waypoints cannot be read", slog.Any("error", err))
		return
	}
	s.o.Known.set(lease.Name, r)
	signal(s.expires)
}

// forget drops what other replicas said and did not renew.
func (s *Share) forget(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.expires:
		case <-ctx.Done():
			return
		}
		expired, next := s.o.Known.expire(time.Now())
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		for _, name := range expired {
			if !s.leads() {
				break
			}
			if err := s.remove(ctx, name); err != nil {
				s.o.Log.Warn("the Lease of a replica that vanished is left behind", slog.String("lease", name), slog.Any("error", err))
			}
		}
	}
}
