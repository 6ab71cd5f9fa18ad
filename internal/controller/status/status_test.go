package status

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	metaapi "istio.io/api/meta/v1alpha1"
	securityapi "istio.io/api/security/v1beta1"
	typeapi "istio.io/api/type/v1beta1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
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
	fronted  = translate.Condition{Status: true, Reason: "ResolvedWaypoints", Message: "served"}
)

func problem(severity translate.Severity, fault string) []translate.Problem {
	return []translate.Problem{{Object: translate.Key{Kind: "HTTPRoute", Namespace: "shop", Name: "cart"}, Field: "spec.x", Fault: fault, Severity: severity}}
}

func TestRoute(t *testing.T) {
	at := func(ref int, accepted translate.Condition) []feed.Parent {
		return []feed.Parent{{Gateway: shopOne, ParentStatus: translate.ParentStatus{Ref: ref, Accepted: accepted, ResolvedRefs: resolved, Waypoint: fronted}}}
	}
	idle, nobodys := at(0, yes), at(0, translate.Condition{Reason: "NoMatchingParent", Message: "has no waypoint"})
	idle[0].Idle = true
	nobodys[0].Nobodys, nobodys[0].ResolvedRefs = true, translate.Condition{}
	nobodys[0].Waypoint = translate.Condition{Reason: "MissingUseWaypointLabel", Message: "has no waypoint"}
	for name, c := range map[string]struct {
		report   feed.Report
		ref      string // of our entry; empty: there is none
		want     []string
		refusals []Refusal
	}{
		"nobody of ours": {feed.Report{}, "", nil, nil},
		"in force": {
			feed.Report{Parents: at(1, yes)},
			"stock",
			[]string{"Accepted True Accepted In force", "ResolvedRefs True ResolvedRefs", "ResolvedWaypoints True ResolvedWaypoints Served"},
			nil,
		},
		"no pod is ready yet": {
			feed.Report{Parents: idle},
			"cart",
			[]string{"Accepted True Accepted In force", "ResolvedWaypoints False WaypointIsNotReady No pod of the waypoint shop/one is ready yet, so calls go around it and the route"},
			nil,
		},
		"no waypoint, beside istiod": {feed.Report{Parents: nobodys}, "", nil, nil},
		"no waypoint, alone": {
			feed.Report{Parents: nobodys, Alone: true},
			"cart",
			[]string{"Accepted False NoMatchingParent Has no waypoint", "ResolvedWaypoints False MissingUseWaypointLabel Has no waypoint"},
			nil,
		},
		"a waypoint refuses it": {
			feed.Report{Parents: at(0, yes)},
			"cart",
			[]string{"Accepted False RefusedByWaypoint A waypoint of shop/one refuses it: no such regex. The last version that was right stays in force"},
			[]Refusal{{shopOne, "no such regex"}, {discovery.Gateway{Name: "other"}, "not of this parent"}},
		},
		"not accepted": {
			feed.Report{Parents: at(0, translate.Condition{Reason: "NoMatchingParent", Message: "has no port 90"})},
			"cart",
			[]string{"Accepted False NoMatchingParent Has no port 90"},
			nil,
		},
		"a warning": {
			feed.Report{Parents: at(0, yes), By: map[discovery.Gateway][]translate.Problem{
				{Name: "a"}: problem(translate.Warning, "does nothing"), {Name: "b"}: problem(translate.Warning, "does nothing"),
			}}, "cart", []string{"Accepted True Accepted spec.x: does nothing"}, nil,
		},
		"refused": {
			feed.Report{Parents: at(0, yes), Faults: problem(translate.Error, "must be 1")},
			"cart",
			[]string{"Accepted False UnsupportedValue spec.x: must be 1. The last version that was right stays in force"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.report.Object = route()
			now, changed := Updated(ours, c.report, c.refusals)
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
			again := c.report
			again.Object = now
			if _, changed = Updated(ours, again, c.refusals); changed {
				t.Error("what was said is said again")
			}
			if _, changed = Updated(ours, feed.Report{Object: now, Shared: true}, nil); changed {
				t.Error("the entry of another revision of the controller is taken away")
			}
			if after, changed := Updated(ours, feed.Report{Object: now}, nil); !changed || len(after.(*gatewayv1.HTTPRoute).Status.Parents) != 1 {
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

var shopOne = discovery.Gateway{Namespace: "shop", Name: "one"}

// found is what the translator of shop/one finds wrong.
func found(problems []translate.Problem) map[discovery.Gateway][]translate.Problem {
	return map[discovery.Gateway][]translate.Problem{shopOne: problems}
}

func target(fault []translate.Problem) feed.Target {
	t := feed.Target{Gateway: shopOne, TargetStatus: translate.TargetStatus{Target: translate.Key{Kind: "Service", Namespace: "shop", Name: "cart"}}}
	if len(fault) > 0 {
		t.Ref, t.Fault = 1, fault[0]
	}
	return t
}

func TestPolicy(t *testing.T) {
	holds, lacks := target(nil), target(problem(translate.Warning, "no waypoint"))
	idle, around := holds, holds
	idle.Idle, around.Around = true, "who calls a pod goes around"
	refused := []Refusal{{shopOne, "no such regex"}}
	at := func(targets ...feed.Target) []feed.Target { return targets }
	for name, c := range map[string]struct {
		targets  int
		report   feed.Report
		refusals []Refusal
		want     string // status, reason and message; empty: nothing is said
	}{
		"in force": {1, feed.Report{By: found(nil), Targets: at(holds)}, nil, "True Enforced In force on Service shop/cart at the waypoint shop/one"},
		"in force, and one can go around": {
			1,
			feed.Report{By: found(nil), Targets: at(around)},
			nil,
			"True Enforced In force on Service shop/cart at the waypoint shop/one. But who calls a pod goes around",
		},
		"a part does nothing": {
			1,
			feed.Report{By: found(problem(translate.Warning, "no token")), Targets: at(holds)},
			nil,
			"True DoesPartlyNothing In force on Service shop/cart at the waypoint shop/one, but: spec.x: no token",
		},
		"a part is refused": {
			1,
			feed.Report{By: found(problem(translate.Error, "no CUSTOM")), Targets: at(holds)},
			nil,
			"False DoesPartlyNothing spec.x: no CUSTOM",
		},
		"nothing enforces it": {
			1,
			feed.Report{By: found(problem(translate.Warning, "no waypoint")), Targets: at(lacks)},
			nil,
			"False NotEnforced spec.x: no waypoint",
		},
		"one of two targets": {
			2,
			feed.Report{By: found(problem(translate.Warning, "no waypoint")), Targets: at(holds, lacks)},
			nil,
			"False PartlyEnforced spec.x: no waypoint. In force on Service shop/cart at",
		},
		"no pod is ready yet": {
			1,
			feed.Report{By: found(nil), Targets: at(idle)},
			nil,
			"False NotEnforced No pod of the waypoint shop/one is ready yet, so calls to Service shop/cart go around it",
		},
		"a waypoint refuses it": {
			1,
			feed.Report{By: found(nil), Targets: at(holds)},
			refused,
			"False RefusedByWaypoint A waypoint of shop/one refuses it: no such regex. The last version that was right stays in force",
		},
		"somebody else's": {1, feed.Report{By: found(nil)}, nil, ""},
		"for ztunnels":    {0, feed.Report{By: found(problem(translate.Warning, "not ours"))}, nil, ""},
		"for ztunnels, which see no HTTP": {
			0,
			feed.Report{By: found(problem(translate.Warning, "no HTTP")), Targets: at(target(problem(translate.Warning, "no HTTP")))},
			nil,
			"False NotEnforced spec.x: no HTTP",
		},
		"refused":                       {1, feed.Report{By: found(nil), Faults: problem(translate.Error, "must be 1")}, nil, "False Refused spec.x: must be 1. The last"},
		"refused, and no Gateway ours":  {1, feed.Report{Faults: problem(translate.Error, "must be 1")}, nil, ""},
		"refused, and for ztunnels":     {0, feed.Report{By: found(nil), Faults: problem(translate.Error, "must be 1")}, nil, ""},
		"refused, as everybody says it": {1, feed.Report{By: found(problem(translate.Error, "must be 1")), Faults: problem(translate.Error, "must be 1")}, nil, "False Refused spec.x: must be 1. The"},
	} {
		t.Run(name, func(t *testing.T) {
			c.report.Object = policy(c.targets)
			now, changed := Updated(ours, c.report, c.refusals)
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
			if _, changed = Updated(ours, c.report, c.refusals); changed {
				t.Error("what was said is said again")
			}
			after, changed := Updated(ours, feed.Report{Object: now, By: found(nil)}, nil)
			if conditions := after.(*securityv1.AuthorizationPolicy).Status.GetConditions(); !changed || len(conditions) != 1 {
				t.Errorf("our condition stays when no target is ours any more: %v", conditions)
			}
			if _, changed = Updated(ours, feed.Report{Object: now, By: found(nil), Shared: true}, nil); changed {
				t.Error("what another revision may have said is taken away")
			}
		})
	}
}

// TestTimeMovesWithTheStatusOnly: who waits for a condition looks at its time.
func TestTimeMovesWithTheStatusOnly(t *testing.T) {
	list := []*metaapi.IstioCondition{{Type: PolicyCondition, Status: "True", Message: "a", LastTransitionTime: &timestamppb.Timestamp{Seconds: 1}}}
	if !replace(&list, PolicyCondition, policyCondition("True", reasonEnforced, "b"), 7) || list[0].GetLastTransitionTime().GetSeconds() != 1 {
		t.Errorf("another message moved the time, or was not said: %v", list)
	}
	if !replace(&list, PolicyCondition, policyCondition("False", reasonEnforced, "b"), 7) || list[0].GetLastTransitionTime().GetSeconds() == 1 {
		t.Errorf("another status did not move the time: %v", list)
	}
}

// TestService: what is said of services where there is no istiod, which would say it.
func TestService(t *testing.T) {
	yes, no := &translate.Condition{Status: true, Reason: "WaypointAccepted", Message: "served"}, &translate.Condition{Reason: "AttachmentDenied", Message: "not let"}
	say := func(obj translate.Object, bound *translate.Condition, alone bool) (translate.Object, bool) {
		return Updated(ours, feed.Report{Object: obj, Bound: bound, Alone: alone}, nil)
	}
	texts := map[string]func(translate.Object) string{
		"Service": func(obj translate.Object) (list string) {
			for _, c := range obj.(*corev1.Service).Status.Conditions {
				list += c.Type + " " + string(c.Status) + " " + c.Reason + " " + c.Message + "\n"
			}
			return list
		},
		"ServiceEntry": func(obj translate.Object) (list string) {
			for _, c := range obj.(*networkingv1.ServiceEntry).Status.GetConditions() {
				list += c.GetType() + " " + c.GetStatus() + " " + c.GetReason() + " " + c.GetMessage() + "\n"
			}
			return list
		},
	}
	for kind, obj := range map[string]translate.Object{"Service": &corev1.Service{}, "ServiceEntry": &networkingv1.ServiceEntry{}} {
		if _, changed := say(obj, yes, false); changed {
			t.Errorf("%s: said beside istiod", kind)
		}
		obj, changed := say(obj, yes, true)
		if want := "waypoint-mesh.dev/WaypointBound True WaypointAccepted Served\n"; !changed || texts[kind](obj) != want {
			t.Errorf("%s: got %q, want %q", kind, texts[kind](obj), want)
		}
		if _, changed = say(obj, yes, true); changed {
			t.Errorf("%s: what was said is said again", kind)
		}
		obj, _ = say(obj, no, true)
		if want := "waypoint-mesh.dev/WaypointBound False AttachmentDenied Not let\n"; texts[kind](obj) != want {
			t.Errorf("%s: got %q, want %q", kind, texts[kind](obj), want)
		}
		if obj, changed = say(obj, no, false); !changed || texts[kind](obj) != "" {
			t.Errorf("%s: istiod has come, and ours stays: %q", kind, texts[kind](obj))
		}
	}
}

func TestNoFight(t *testing.T) {
	w := NewWriter(Options{Log: slog.New(slog.DiscardHandler)})
	key := translate.Key{Kind: "AuthorizationPolicy", Namespace: "shop", Name: "p"}
	say := func(report feed.Report) bool {
		report.Object = policy(1) // as somebody left it who took away what we said
		now, _ := Updated(ours, report, nil)
		if !w.mayInsist(key, now) {
			return false
		}
		w.said(key, now)
		return true
	}
	inForce := feed.Report{By: found(nil), Targets: []feed.Target{target(nil)}}
	for n := range maxStatements {
		if !say(inForce) {
			t.Fatalf("gave up at try %d", n+1)
		}
	}
	if say(inForce) {
		t.Error("insisted without end")
	}
	if !say(feed.Report{By: found(nil), Faults: problem(translate.Error, "must be 1")}) {
		t.Error("something new is not said")
	}
}

func TestOnlyWhatHasAStatusIsQueued(t *testing.T) {
	w := NewWriter(Options{Log: slog.New(slog.DiscardHandler)})
	w.Touched(translate.Key{Kind: "Pod", Name: "a"})
	w.Touched(translate.Key{Kind: "Gateway", Name: "a"})
	w.Touched(translate.Key{Kind: "HTTPRoute", Name: "a"})
	w.Touched(translate.Key{Kind: "HTTPRoute", Name: "a"})
	if n := w.queue.Len(); n != 1 {
		t.Errorf("%d queued, want 1", n)
	}
}
