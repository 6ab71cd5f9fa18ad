package refusal

import (
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"

	"github.com/waypoint-mesh/waypoint/api"
	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
)

const (
	// Label marks the Leases, annotation holds what they say, as JSON.
	Label      = "waypoint-mesh.dev/refused"
	annotation = "waypoint-mesh.dev/refused"
	// life of a Lease, and how often it is renewed.
	life       = 40 * time.Second
	renewEvery = life / 3
	// mostPublished resources and longest bytes of the reason for each bound what a
	// Lease says: annotations may have 256 KiB, and JSON makes six bytes of some.
	mostPublished, longest = 100, 200
)

// published is one rejection as it stands in a Lease.
type published struct {
	Namespace string `json:"namespace"`
	Gateway   string `json:"gateway"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
}

// leaseOf makes the Lease of a replica.
func leaseOf(namespace, name string, rejections Rejections, now time.Time) (*coordinationv1ac.LeaseApplyConfiguration, error) {
	list := []published{}
	for g, of := range rejections {
		for _, r := range of {
			if len(list) < mostPublished {
				list = append(list, published{g.Namespace, g.Name, r.Key.Type, r.Key.Name, r.Reason[:min(len(r.Reason), longest)]})
			}
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("what waypoints refuse, as JSON: %w", err)
	}
	return coordinationv1ac.Lease(name, namespace).
		WithLabels(map[string]string{Label: "true"}).
		WithAnnotations(map[string]string{annotation: string(text)}).
		WithSpec(coordinationv1ac.LeaseSpec().
			WithHolderIdentity(name).
			WithLeaseDurationSeconds(int32(life / time.Second)).
			WithRenewTime(metav1.NewMicroTime(now))), nil
}

// reportOf reads a Lease. Its life is counted from when it is read, by our clock:
// those of others may be wrong.
func reportOf(lease *coordinationv1.Lease, now time.Time) (report, error) {
	var list []published
	if err := json.Unmarshal([]byte(lease.Annotations[annotation]), &list); err != nil {
		return report{}, fmt.Errorf("Lease %s, annotation %s: %w", lease.Name, annotation, err) //nolint:staticcheck // a kind's name
	}
	r := report{rejections: make(Rejections), until: now.Add(life)}
	for _, p := range list {
		g := discovery.Gateway{Namespace: p.Namespace, Name: p.Gateway}
		r.rejections[g] = append(r.rejections[g], discovery.Rejection{Key: api.Key{Type: p.Type, Name: p.Name}, Reason: p.Reason})
	}
	return r, nil
}
