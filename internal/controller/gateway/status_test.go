package gateway

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func TestStatus(t *testing.T) {
	here := []gatewayv1.GatewayStatusAddress{address(gatewayv1.HostnameAddressType, "w.shop.svc"), address(gatewayv1.IPAddressType, "10.0.0.1")}
	for name, c := range map[string]struct {
		outcome  outcome
		before   []gatewayv1.GatewayStatusAddress
		want     []string // conditions: type, status, reason, message
		listener []string
		kept     int // addresses
	}{
		"nobody is ready yet": {
			want: []string{"Accepted True Accepted Served by", "Programmed False AddressNotAssigned Waiting for a pod"},
		},
		"serving": {
			outcome: outcome{addresses: here}, kept: 2,
			want:     []string{"Programmed True Programmed Serving at w.shop.svc, 10.0.0.1"},
			listener: []string{"Accepted True Accepted", "Programmed True Programmed", "ResolvedRefs True ResolvedRefs", "Conflicted False NoConflicts"},
		},
		"nobody is ready any more": {
			before: here, kept: 2,
			want: []string{"Programmed False AddressNotUsable No pod is ready; requests fail until one is"},
		},
		"unacceptable": {
			outcome: outcome{reason: gatewayv1.GatewayReasonInvalidParameters, unacceptable: "no such ConfigMap"}, before: here, kept: 2,
			want:     []string{"Accepted False InvalidParameters no such ConfigMap", "Programmed False Invalid Not accepted: no such ConfigMap"},
			listener: []string{"Accepted True Accepted", "Programmed False Invalid"},
		},
		"a label that means nothing": {
			outcome: outcome{found: Findings{Remarks: "metadata.labels[istio.io/waypoint-for]: must be service"}},
			want:    []string{"Accepted True Accepted Served by waypoint-mesh.dev/waypoint-controller, but: metadata.labels[istio.io/waypoint-for]: must be service"},
		},
		"a resource is refused": {
			outcome: outcome{addresses: here, found: Findings{Refused: "HTTPRoute shop/cart: no such regex"}}, kept: 2,
			want: []string{
				"Programmed True Programmed Serving at w.shop.svc, 10.0.0.1",
				"waypoint-mesh.dev/Configured False ResourcesRefused Waypoints refuse, and go on with the last version that was right: HTTPRoute shop/cart: no such regex",
			},
		},
		"hindered": {
			outcome: outcome{hindered: "Service shop/w is not ours", addresses: here}, kept: 2,
			want: []string{"Accepted True Accepted Served by", "Programmed False Invalid Service shop/w is not ours"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
			g.Spec.Listeners = []gatewayv1.Listener{{Name: "mesh", Port: 15008, Protocol: "HBONE"}}
			g.Status.Addresses = c.before
			status := g.Status.DeepCopy()
			c.outcome.fill(g, status)
			for _, want := range c.want {
				check(t, status.Conditions, want)
			}
			for _, want := range c.listener {
				check(t, status.Listeners[0].Conditions, want)
			}
			if len(status.Addresses) != c.kept {
				t.Errorf("addresses %v, want %d", status.Addresses, c.kept)
			}
			g.Status = *status.DeepCopy()
			if c.outcome.fill(g, status); !reflect.DeepEqual(*status, g.Status) {
				t.Error("said again it is another status, which would be written without end")
			}
		})
	}
}

// TestListeners: a listener that cannot be is said to be so, and the waypoint works.
func TestListeners(t *testing.T) {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
	g.Spec.Listeners = []gatewayv1.Listener{
		{Name: "web", Port: 80, Protocol: "HTTP"},
		{Name: "mesh", Port: 15008, Protocol: "HBONE", AllowedRoutes: &gatewayv1.AllowedRoutes{
			Kinds: []gatewayv1.RouteGroupKind{{Kind: "HTTPRoute"}, {Kind: "UDPRoute"}},
		}},
	}
	var status gatewayv1.GatewayStatus
	o := outcome{found: Findings{Attached: map[gatewayv1.SectionName]int32{"mesh": 3}}}
	o.fill(g, &status)
	check(t, status.Listeners[0].Conditions, `Accepted False UnsupportedProtocol A waypoint listens on port 15008 with protocol "HBONE", not on port 80`)
	check(t, status.Listeners[0].Conditions, "Programmed False Invalid")
	check(t, status.Conditions, "Accepted True Accepted")
	other := g.DeepCopy()
	other.Spec.Listeners = other.Spec.Listeners[:1]
	o.fill(other, &other.Status)
	check(t, other.Status.Conditions, "Accepted True ListenersNotValid")
	check(t, status.Listeners[1].Conditions, "ResolvedRefs False InvalidRouteKinds allowedRoutes.kinds: a waypoint has no UDPRoute")
	if kinds := status.Listeners[1].SupportedKinds; len(kinds) != 1 || kinds[0].Kind != "HTTPRoute" {
		t.Errorf("kinds %v", kinds)
	}
	if n := status.Listeners[1].AttachedRoutes; n != 3 {
		t.Errorf("%d routes attached, want 3", n)
	}
}

// TestLongMessage: what the API would refuse for its length is cut short, or there
// would be no status at all.
func TestLongMessage(t *testing.T) {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
	o := outcome{reason: gatewayv1.GatewayReasonInvalidParameters, unacceptable: "deployment: " + strings.Repeat("ä", 40000)}
	o.fill(g, &g.Status)
	check(t, g.Status.Conditions, "Accepted False InvalidParameters deployment: ä")
	for _, c := range g.Status.Conditions {
		if len(c.Message) > 32768 {
			t.Errorf("%s: a message of %d bytes, and the API takes 32768", c.Type, len(c.Message))
		}
	}
}

// check compares a condition with "Type Status Reason" and the beginning of its
// message.
func check(t *testing.T, conditions []metav1.Condition, want string) {
	t.Helper()
	parts := strings.SplitN(want+" ", " ", 4)
	c := meta.FindStatusCondition(conditions, parts[0])
	if c == nil || string(c.Status) != parts[1] || c.Reason != parts[2] || !strings.HasPrefix(c.Message, strings.TrimSpace(parts[3])) ||
		c.ObservedGeneration != 7 {
		t.Errorf("got %+v, want %s", c, want)
	}
}
