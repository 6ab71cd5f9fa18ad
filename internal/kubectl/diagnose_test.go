package kubectl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
)

func TestDiagnose(t *testing.T) {
	plain := errors.New("something else")
	rbac := func(rest string) error {
		return fmt.Errorf("listing: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "gateways"}, "",
			errors.New(`User "eve" cannot list resource "gateways" in API group "gateway.networking.k8s.io"`+rest)))
	}
	webhook := apierrors.NewForbidden(schema.GroupResource{Resource: "gateways"}, "x", errors.New("admission webhook says no"))
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"no Gateway API": {
			&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "Gateway"}},
			[]string{"knows no Gateway", "kubectl apply --server-side -f https://"},
		},
		"no other CRDs": {
			&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "security.istio.io", Kind: "AuthorizationPolicy"}},
			[]string{"knows no AuthorizationPolicy", "CRDs of security.istio.io"},
		},
		"may not in a namespace": {
			rbac(` in the namespace "shop"`),
			[]string{"you may not list gateways.gateway.networking.k8s.io", "ask for a Role ", "kubectl auth can-i list gateways.gateway.networking.k8s.io -n shop"},
		},
		"may not anywhere":           {rbac(" at the cluster scope"), []string{"ask for a ClusterRole ", "--all-namespaces"}},
		"refused by a webhook":       {webhook, []string{"admission webhook says no"}},
		"who are you":                {apierrors.NewUnauthorized("x"), []string{"does not accept the credentials", "--context"}},
		"no kubeconfig":              {clientcmd.NewEmptyConfigError("none"), []string{"--kubeconfig or KUBECONFIG"}},
		"nobody listens":             {&url.Error{Op: "Get", URL: "https://x", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, []string{"does not answer", "--context"}},
		"no such host":               {&url.Error{Op: "Get", URL: "https://x", Err: &net.DNSError{Err: "no such host"}}, []string{"does not answer"}},
		"an error of something else": {plain, []string{"something else"}},
	} {
		t.Run(name, func(t *testing.T) {
			if clientcmd.IsEmptyConfig(c.err) != (name == "no kubeconfig") {
				t.Fatal("the error is not what it is meant to be")
			}
			got := Diagnose(c.err)
			contains(t, name, got.Error(), c.want...)
			if !errors.Is(got, c.err) && errors.Unwrap(got) == nil {
				t.Errorf("the cause is lost: %v", got)
			}
		})
	}
	if Diagnose(nil) != nil {
		t.Error("an error where there is none")
	}
	if got := Diagnose(plain); !errors.Is(got, plain) || got.Error() != plain.Error() {
		t.Errorf("an error that nothing is known of is changed: %v", got)
	}
}
