package status

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	metaapi "istio.io/api/meta/v1alpha1"
	securityapi "istio.io/api/security/v1beta1"
	typeapi "istio.io/api/type/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

const ours gatewayv1.GatewayController = "waypoint-mesh.dev/waypoint-controller"

// route has two parents and an entry of another controller for the first.
func route() *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Generation: 7}}
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "cart", Port: new(gatewayv1.PortNumber(80))}, {Name: "stock"}}
	r.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: r.Spec.ParentRefs[0], ControllerName: "istio.io/gateway-controller"}}
	return r
}

var (
	yes      = translate.Condition{Status: true, Reason: "Accepted"}
	resolved = translate.Condition{Status: true, Reason: "ResolvedRefs"}
)

func problem(severity translate.Severity, fault string) []translate.Problem {
	return []translate.Problem{{Object: translate.Key{Kind: "HTTPRoute", Namespace: "shop", Name: "cart"}, Field: "spec.x", Fault: fault, Severity: severity}}
}

func TestRoute(t *testing.T) {
	at := func(ref int, accepted translate.Condition) []translate.ParentStatus {
		return []translate.ParentStatus{{Ref: ref, Accepted: accepted, ResolvedRefs: resolved}}
	}
	for name, c := range map[string]struct {
		report feed.Report
		ref    string // of our entry; empty: there is none
		want   []string
	}{
		"nobody of ours": {feed.Report{}, "", nil},
		"in force":       {feed.Report{Parents: at(1, yes)}, "stock", []string{"Accepted True Accepted In force", "ResolvedRefs True ResolvedRefs"}},
		"not accepted": {
			feed.Report{Parents: at(0, translate.Condition{Reason: "NoMatchingParent", Message: "has no port 90"})},
			"cart",
			[]string{"Accepted False NoMatchingParent Has no port 90"},
		},
		"a warning": {
			feed.Report{Parents: at(0, yes), By: map[discovery.Gateway][]translate.Problem{
				{Name: "a"}: problem(translate.Warning, "does nothing"), {Name: "b"}: problem(translate.Warning, "does nothing"),
			}}, "cart", []string{"Accepted True Accepted spec.x: does nothing"},
		},
		"refused": {
			feed.Report{Parents: at(0, yes), Faults: problem(translate.Error, "must be 1")},
			"cart",
			[]string{"Accepted False UnsupportedValue spec.x: must be 1. The last version that was right stays in force"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.report.Object = route()
			now, changed := updated(ours, c.report)
			list := now.(*gatewayv1.HTTPRoute).Status.Parents
			if list[0].ControllerName == ours {
				t.Error("the entry of another controller is gone")
			}
			if c.ref == "" {
				if changed || len(list) != 1 {
					t.Errorf("changed %v, %d entries; want nothing", changed, len(list))
				}
				return
			}
			if len(list) != 2 || string(list[1].ParentRef.Name) != c.ref {
				t.Fatalf("entries %+v, want one of ours for %s", list, c.ref)
			}
			for _, want := range c.want {
				hasCondition(t, list[1].Conditions, want)
			}
			again := feed.Report{Object: now, Parents: c.report.Parents, By: c.report.By, Faults: c.report.Faults}
			if _, changed = updated(ours, again); changed {
				t.Error("what was said is said again")
			}
			if after, changed := updated(ours, feed.Report{Object: now}); !changed || len(after.(*gatewayv1.HTTPRoute).Status.Parents) != 1 {
				t.Error("our entry stays when no parent is ours any more")
			}
		})
	}
}

func hasCondition(t *testing.T, list []metav1.Condition, want string) {
	t.Helper()
	parts := strings.SplitN(want+" ", " ", 4)
	c := meta.FindStatusCondition(list, parts[0])
	if c == nil || string(c.Status) != parts[1] || c.Reason != parts[2] || c.Message != strings.TrimSpace(parts[3]) || c.ObservedGeneration != 7 {
		t.Errorf("got %+v, want %s", c, want)
	}
}

func policy(targets int) *securityv1.AuthorizationPolicy {
	p := &securityv1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Generation: 7}}
	p.Status.Conditions = []*metaapi.IstioCondition{{Type: "WaypointAccepted", Status: "True"}}
	p.Spec.Rules = []*securityapi.Rule{{}}
	for range targets {
		p.Spec.TargetRefs = append(p.Spec.TargetRefs, &typeapi.PolicyTargetReference{Kind: "Service", Name: "cart"})
	}
	return p
}

func TestPolicy(t *testing.T) {
	by := func(problems []translate.Problem) map[discovery.Gateway][]translate.Problem {
		return map[discovery.Gateway][]translate.Problem{{Name: "a"}: problems}
	}
	for name, c := range map[string]struct {
		targets int
		report  feed.Report
		want    string // status, reason and message; empty: nothing is said
	}{
		"in force":             {1, feed.Report{Emitted: true}, "True Enforced In force at the waypoint of every target"},
		"a part does nothing":  {1, feed.Report{Emitted: true, By: by(problem(translate.Warning, "no token"))}, "True DoesPartlyNothing In force, but: spec.x: no token"},
		"a part is refused":    {1, feed.Report{Emitted: true, By: by(problem(translate.Error, "no CUSTOM"))}, "False DoesPartlyNothing spec.x: no CUSTOM"},
		"nothing enforces it":  {1, feed.Report{By: by(problem(translate.Warning, "no waypoint"))}, "False NoTarget spec.x: no waypoint"},
		"somebody else's":      {1, feed.Report{}, ""},
		"for ztunnels":         {0, feed.Report{By: by(problem(translate.Warning, "not ours"))}, ""},
		"refused":              {1, feed.Report{Emitted: true, Faults: problem(translate.Error, "must be 1")}, "False Refused spec.x: must be 1. The last"},
		"refused by everybody": {2, feed.Report{Faults: problem(translate.Error, "must be 1"), By: by(problem(translate.Error, "must be 1"))}, "False Refused spec.x: must be 1. The"},
	} {
		t.Run(name, func(t *testing.T) {
			c.report.Object = policy(c.targets)
			now, changed := updated(ours, c.report)
			list := now.(*securityv1.AuthorizationPolicy).Status.GetConditions()
			if list[0].GetType() != "WaypointAccepted" {
				t.Error("the condition of istiod is gone")
			}
			if c.want == "" {
				if changed {
					t.Errorf("said %v", list)
				}
				return
			}
			if len(list) != 2 {
				t.Fatalf("conditions %v", list)
			}
			if got := list[1].GetStatus() + " " + list[1].GetReason() + " " + list[1].GetMessage(); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			c.report.Object = now
			if _, changed = updated(ours, c.report); changed {
				t.Error("what was said is said again")
			}
		})
	}
}

// TestTimeMovesWithTheStatusOnly: who waits for a condition looks at its time.
func TestTimeMovesWithTheStatusOnly(t *testing.T) {
	report := feed.Report{Object: policy(1), Emitted: true}
	first := policyConditions(nil, report, timestamppb.New(timestamppb.Now().AsTime()))
	report.By = map[discovery.Gateway][]translate.Problem{{}: problem(translate.Warning, "does nothing")}
	if again := policyConditions(first, report, &timestamppb.Timestamp{Seconds: 1}); again[0].GetLastTransitionTime() != first[0].GetLastTransitionTime() {
		t.Error("another message moved the time")
	}
	report.By = map[discovery.Gateway][]translate.Problem{{}: problem(translate.Error, "is refused")}
	if again := policyConditions(first, report, &timestamppb.Timestamp{Seconds: 1}); again[0].GetLastTransitionTime().GetSeconds() != 1 {
		t.Error("another status did not move the time")
	}
}

func TestNoFight(t *testing.T) {
	w := NewWriter(Options{Log: slog.New(slog.DiscardHandler)})
	key := translate.Key{Kind: "AuthorizationPolicy", Namespace: "shop", Name: "p"}
	say := func(report feed.Report) bool {
		report.Object = policy(1) // as somebody left it who took away what we said
		now, _ := updated(ours, report)
		if !w.mayInsist(key, now) {
			return false
		}
		w.said(key, now)
		return true
	}
	for n := range maxStatements {
		if !say(feed.Report{Emitted: true}) {
			t.Fatalf("gave up at try %d", n+1)
		}
	}
	if say(feed.Report{Emitted: true}) {
		t.Error("insisted without end")
	}
	if !say(feed.Report{Faults: problem(translate.Error, "must be 1")}) {
		t.Error("something new is not said")
	}
}

func TestOnlyWhatHasAStatusIsQueued(t *testing.T) {
	w := NewWriter(Options{Log: slog.New(slog.DiscardHandler)})
	w.Touched(translate.Key{Kind: "Pod", Name: "a"})
	w.Touched(translate.Key{Kind: "HTTPRoute", Name: "a"})
	w.Touched(translate.Key{Kind: "HTTPRoute", Name: "a"})
	if n := w.queue.Len(); n != 1 {
		t.Errorf("%d queued, want 1", n)
	}
}
