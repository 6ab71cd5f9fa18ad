package gateway

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func TestServes(t *testing.T) {
	for _, c := range []struct {
		revisions          []string
		gateway, namespace string
		want               bool
	}{
		{nil, "", "", true},
		{nil, "x", "y", true},
		{[]string{"default"}, "", "", true},
		{[]string{"default"}, "x", "", false},
		{[]string{"x", "prod"}, "", "", false},
		{[]string{"x", "prod"}, "prod", "", true},
		{[]string{"x"}, "", "x", true},
		{[]string{"x"}, "y", "x", false},
		{[]string{"x"}, "x", "y", true},
	} {
		label := func(value string) map[string]string {
			if value == "" {
				return nil
			}
			return map[string]string{"istio.io/rev": value}
		}
		g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Labels: label(c.gateway)}}
		if got := (Settings{Revisions: c.revisions}).Serves(g, label(c.namespace)); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}
