package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/waypoint-mesh/waypoint/internal/controller/discovery"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// review is a request as the API server sends it.
func review(t testing.TB, r admission.Request) []byte {
	t.Helper()
	r.UID = "1"
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &r.AdmissionRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// post gives the answer to a body; nil if it is none that the API server would read.
func post(t testing.TB, h http.Handler, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	var answer admissionv1.AdmissionReview
	if w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &answer) != nil {
		return nil
	}
	return answer.Response
}

func TestWebhook(t *testing.T) {
	h := newHandler(t, discovery.Gateway{Namespace: "shop", Name: "waypoint"})
	server := Webhook(h)
	wrong := request(t, route("", service, "a"), "")
	if got := post(t, server, review(t, wrong)); got == nil || got.Allowed || got.UID != "1" || got.Result.Code != http.StatusForbidden {
		t.Errorf("a wrong object: %+v", got)
	}
	dry := true
	wrong.DryRun = &dry
	if got := post(t, server, review(t, wrong)); got == nil || got.Allowed {
		t.Errorf("a dry run: %+v", got)
	}
	wrong.SubResource = "status"
	if got := post(t, server, review(t, wrong)); got == nil || !got.Allowed {
		t.Errorf("a status: %+v", got)
	}
	// As large as objects get, with the stored version beside.
	big := fmt.Sprintf(", annotations: {big: %s}", strings.Repeat("x", 3<<20))
	if got := post(t, server, review(t, request(t, route(big, service, "/a"), route(big, service, "/b")))); got == nil || !got.Allowed {
		t.Errorf("huge objects: %+v", got)
	}
}

// TestPanicIsSilence: it does not become an answer, since that would be a refusal.
func TestPanicIsSilence(t *testing.T) {
	h := newHandler(t, discovery.Gateway{Namespace: "shop", Name: "waypoint"})
	h.Fronts = func(translate.Key) bool { panic("a fault of ours") }
	server := httptest.NewUnstartedServer(Webhook(h))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	res, err := server.Client().Post(server.URL+Path, "application/json", bytes.NewReader(review(t, request(t, route("", service, "a"), ""))))
	if err == nil {
		res.Body.Close()
		t.Errorf("answered with %s", res.Status)
	}
}

// FuzzHandle: whatever an object is, there is an answer, which is not an error, and
// nothing that is being taken away or left as it is is refused.
func FuzzHandle(f *testing.F) {
	h := newHandler(f, discovery.Gateway{Namespace: "shop", Name: "waypoint"})
	kinds := translate.Kinds()
	for i, k := range kinds {
		if k.Name == "HTTPRoute" {
			f.Add(i, request(f, route("", service, "a"), "").Object.Raw)
			f.Add(i, request(f, rules("{name: waypoint}", "/a", "b"), "").Object.Raw)
		}
		if k.Name == "AuthorizationPolicy" {
			f.Add(i, request(f, strings.ReplaceAll(policy, "%", "300.1.1.1"), "").Object.Raw)
		}
		f.Add(i, []byte(`{"metadata":{"name":"waypoint","namespace":"shop"},"spec":{}}`))
	}
	f.Fuzz(func(t *testing.T, i int, raw []byte) {
		k := kinds[uint(i)%uint(len(kinds))]
		r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
			Kind: metav1.GroupVersionKind{Group: k.Group, Version: k.Versions[0], Kind: k.Name},
		}}
		got := h.Handle(t.Context(), r)
		if !got.Allowed && (got.Result.Code != http.StatusForbidden || got.Result.Message == "") {
			t.Errorf("answered %+v", got.Result)
		}
		r.Operation, r.OldObject = admissionv1.Update, r.Object
		if got := h.Handle(t.Context(), r); !got.Allowed {
			t.Errorf("left as it is, and refused: %v", got.Result)
		}
		r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{}
		if got := h.Handle(t.Context(), r); !got.Allowed {
			t.Errorf("deleted, and refused: %v", got.Result)
		}
	})
}

// FuzzReview: whatever comes instead of a review, it does not stop us.
func FuzzReview(f *testing.F) {
	server := Webhook(newHandler(f, discovery.Gateway{Namespace: "shop", Name: "waypoint"}))
	f.Add(review(f, request(f, route("", service, "a"), "")))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"operation":"UPDATE","kind":{}}}`))
	f.Add([]byte("["))
	f.Fuzz(func(t *testing.T, body []byte) { post(t, server, body) })
}
