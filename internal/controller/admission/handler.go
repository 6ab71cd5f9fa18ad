package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Path is where the API server finds the webhook.
const Path = "/validate"

// Handler answers admission requests.
type Handler struct {
	Scheme *runtime.Scheme
	// Gateway reports whether there is a Gateway of ours of that name, Any whether
	// there is one at all.
	Gateway func(discovery.Gateway) bool
	Any     func() bool
}

// Handle implements admission.Handler. Dry runs are answered like others: nothing
// is kept.
func (h *Handler) Handle(_ context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update || req.SubResource != "" {
		return admission.Allowed("")
	}
	obj, err := h.decode(req.Kind.Kind, req.Object.Raw)
	switch {
	case errors.Is(err, errOtherKind):
		return admission.Allowed("")
	case err != nil:
		return admission.Errored(http.StatusBadRequest, err)
	}
	faults := feed.Faults(obj)
	errs := slices.DeleteFunc(slices.Clone(faults), func(p translate.Problem) bool { return p.Severity != translate.Error })
	if len(errs) == 0 || obj.GetDeletionTimestamp() != nil || !h.concerns(obj) || h.had(req, obj, errs) {
		return admission.Allowed("").WithWarnings(append(texts(faults), unread(req.Object.Raw)...)...)
	}
	return admission.Denied(strings.Join(texts(errs), "; ")).WithWarnings(texts(slices.DeleteFunc(faults, func(p translate.Problem) bool {
		return p.Severity == translate.Error
	}))...)
}

var errOtherKind = errors.New("a kind that is not read")

// decode reads an object as informers do: fields that are newer than we are do not
// hinder.
func (h *Handler) decode(kind string, raw []byte) (translate.Object, error) {
	for _, obj := range feed.Kinds() {
		if translate.KeyOf(obj).Kind != kind {
			continue
		}
		if err := admission.NewDecoder(h.Scheme).DecodeRaw(runtime.RawExtension{Raw: raw}, obj); err != nil {
			return nil, fmt.Errorf("reading the %s: %w", kind, err)
		}
		return obj, nil
	}
	return nil, errOtherKind
}

// unread warns of fields that the API knows and we do not.
func unread(raw []byte) (warnings []string) {
	_, err := translate.Decode(raw)
	if rejected, ok := errors.AsType[*translate.Rejected](err); ok {
		return texts(rejected.Problems)
	}
	return nil
}

// concerns reports whether a Gateway of ours would use the object, so that its
// faults are for us to refuse.
func (h *Handler) concerns(obj translate.Object) bool {
	switch obj := obj.(type) {
	case *gatewayv1.Gateway:
		return h.Gateway(discovery.Gateway{Namespace: obj.Namespace, Name: obj.Name})
	case *gatewayv1.HTTPRoute:
		return h.anyOurs(obj.Namespace, obj.Spec.ParentRefs)
	case *gatewayv1.GRPCRoute:
		return h.anyOurs(obj.Namespace, obj.Spec.ParentRefs)
	case *gatewayv1.TLSRoute:
		return h.anyOurs(obj.Namespace, obj.Spec.ParentRefs)
	case *gatewayv1.TCPRoute:
		return h.anyOurs(obj.Namespace, obj.Spec.ParentRefs)
	case *securityv1.AuthorizationPolicy:
		return h.Any() && (obj.Spec.GetTargetRef() != nil || len(obj.Spec.GetTargetRefs()) > 0)
	}
	return false // ServiceEntries and the like are for the whole mesh
}

// anyOurs: a Service may have a waypoint of ours today or tomorrow.
func (h *Handler) anyOurs(namespace string, refs []gatewayv1.ParentReference) bool {
	return slices.ContainsFunc(refs, func(ref gatewayv1.ParentReference) bool {
		if ref.Kind != nil && *ref.Kind != "Gateway" {
			return h.Any()
		}
		if ref.Namespace != nil {
			return h.Gateway(discovery.Gateway{Namespace: string(*ref.Namespace), Name: string(ref.Name)})
		}
		return h.Gateway(discovery.Gateway{Namespace: namespace, Name: string(ref.Name)})
	})
}

// had reports whether an update brings no fault that was not there before.
func (h *Handler) had(req admission.Request, obj translate.Object, errs []translate.Problem) bool {
	if req.Operation != admissionv1.Update {
		return false
	}
	old, err := h.decode(req.Kind.Kind, req.OldObject.Raw)
	if err != nil {
		return false
	}
	before := feed.Faults(old)
	return old.GetGeneration() == obj.GetGeneration() && obj.GetGeneration() != 0 ||
		!slices.ContainsFunc(errs, func(p translate.Problem) bool { return !slices.Contains(before, p) })
}

// texts are problems without the object that they are about, which the API server
// names.
func texts(problems []translate.Problem) []string {
	var list []string
	for _, p := range problems {
		_, text, _ := strings.Cut(p.String(), ": ")
		list = append(list, text)
	}
	return list
}
