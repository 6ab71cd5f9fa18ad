package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	jsonutil "sigs.k8s.io/json"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// Path is where the API server finds the webhook.
const Path = "/validate"

// Handler answers admission requests.
type Handler struct {
	// Gateway reports whether there is a Gateway of ours of that name, Any whether
	// there is one at all.
	Gateway func(discovery.Gateway) bool
	Any     func() bool
	// Fronts reports whether one of them fronts a Service or ServiceEntry.
	Fronts func(translate.Key) bool
}

// Webhook serves a handler. That of the library would turn a panic into a refusal;
// without, the connection ends, and the API server goes on.
func Webhook(h *Handler) http.Handler {
	return (&admission.Webhook{Handler: h}).WithRecoverPanic(false)
}

// Handle implements admission.Handler.
func (h *Handler) Handle(_ context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update || req.SubResource != "" {
		return admission.Allowed("")
	}
	empty := emptyOf(req.Kind)
	if empty == nil {
		return admission.Allowed("")
	}
	obj, err := decode(empty, req.Object.Raw)
	if err != nil {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("this version of the waypoint controller cannot read the object, so waypoints do without it: %v", err))
	}
	faults := feed.Faults(obj)
	errs, warnings := split(faults)
	if len(errs) == 0 || obj.GetDeletionTimestamp() != nil || !h.concerns(obj) || !brings(req, obj, errs) {
		return admission.Allowed("").WithWarnings(texts(append(faults, unread(req.Object.Raw)...))...)
	}
	return admission.Denied(strings.Join(texts(errs), "; ")).WithWarnings(texts(warnings)...)
}

// split tells errors from warnings.
func split(faults []translate.Problem) (errs, warnings []translate.Problem) {
	for _, p := range faults {
		if p.Severity == translate.Error {
			errs = append(errs, p)
		} else {
			warnings = append(warnings, p)
		}
	}
	return errs, warnings
}

// emptyOf gives an empty object of a kind that is read; nil if it is none.
func emptyOf(kind metav1.GroupVersionKind) translate.Object {
	known := slices.ContainsFunc(translate.Kinds(), func(k translate.Kind) bool {
		return k.Name == kind.Kind && k.Group == kind.Group && slices.Contains(k.Versions, kind.Version)
	})
	if !known {
		return nil
	}
	for _, obj := range feed.Kinds() {
		if translate.KeyOf(obj).Kind == kind.Kind {
			return obj
		}
	}
	return nil
}

// decode reads an object as informers do, of an older version like one of the
// newest: fields that are newer than we are do not hinder.
func decode(into translate.Object, raw []byte) (translate.Object, error) {
	if len(raw) == 0 {
		return nil, errors.New("it is empty")
	}
	return into, jsonutil.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// unread finds fields of a specification that the API knows and we do not. What is
// in a status is not the user's to mend.
func unread(raw []byte) []translate.Problem {
	_, err := translate.Decode(raw)
	rejected, ok := errors.AsType[*translate.Rejected](err)
	if !ok {
		return nil
	}
	var found []translate.Problem
	for _, p := range rejected.Problems {
		if strings.HasPrefix(p.Field, "spec") {
			p.Severity, p.Cure = translate.Warning, "this version of the waypoint controller does not know it, so it does nothing"
			found = append(found, p)
		}
	}
	return found
}

// brings reports whether an update brings a fault that was not there before.
func brings(req admission.Request, obj translate.Object, errs []translate.Problem) bool {
	if req.Operation != admissionv1.Update {
		return true
	}
	old, err := decode(emptyOf(req.Kind), req.OldObject.Raw)
	if err != nil {
		return false
	}
	if old.GetGeneration() == obj.GetGeneration() && obj.GetGeneration() != 0 {
		return false // the specification is the same
	}
	before, _ := split(feed.Faults(old))
	left := make(map[string]int)
	for _, p := range before {
		left[wherever(p)]++
	}
	return slices.ContainsFunc(errs, func(p translate.Problem) bool {
		left[wherever(p)]--
		return left[wherever(p)] < 0
	})
}

// wherever is a fault without its place in lists: who takes out one rule of several
// moves the others, with what is wrong with them.
func wherever(p translate.Problem) string {
	var field strings.Builder
	for rest := p.Field; rest != ""; {
		before, after, ok := strings.Cut(rest, "[")
		field.WriteString(before)
		if !ok {
			break
		}
		if _, rest, ok = strings.Cut(after, "]"); !ok {
			break
		}
	}
	return field.String() + "\x00" + p.Fault
}

// maxTexts and maxText, in bytes, bound an answer: one object may have a fault in
// each of a thousand rules. The API server cuts warnings short anyhow.
const maxTexts, maxText = 10, 1000

// texts are problems without the object that they are about, which the API server
// names.
func texts(problems []translate.Problem) []string {
	var list []string
	for _, p := range problems[:min(len(problems), maxTexts)] {
		_, text, _ := strings.Cut(p.String(), ": ")
		if len(text) > maxText {
			text = strings.ToValidUTF8(text[:maxText], "") + "..."
		}
		list = append(list, text)
	}
	if more := len(problems) - maxTexts; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}
