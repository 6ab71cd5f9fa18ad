package proxy

import (
	"fmt"
	"testing"

	"github.com/waypoint-mesh/waypoint/internal/flow"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// One identity that says it is ever another workload is believed a few times.
func TestSourcesArePerPeerBounded(t *testing.T) {
	var s sources
	liar := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "liar"}
	honest := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}
	seen := make(map[*flow.Workload]bool)
	for i := range 3 * maxPerPeer {
		w := s.described(sourceKey{liar, fmt.Sprintf("k8s.deployment.name=w%d", i)})
		if seen[w] = true; w.Principal != liar.String() || w.Namespace != "shop" {
			t.Fatalf("%+v", w)
		}
		if i >= maxPerPeer && w.Name != "" {
			t.Fatalf("name %d was believed: %q", i, w.Name)
		}
	}
	if len(seen) != maxPerPeer+1 {
		t.Errorf("%d workloads", len(seen))
	}
	w := s.described(sourceKey{honest, "k8s.deployment.name=web"})
	if again := s.described(sourceKey{honest, "k8s.deployment.name=web"}); w.Name != "web" || again != w {
		t.Errorf("%+v, and then %+v", w, again)
	}
}
