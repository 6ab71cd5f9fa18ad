package kubectl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// crds is where the Gateway API's CRDs come from, in the version that we are made
// for.
const crds = "https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.6.3/standard-install.yaml"

// Quiet keeps client-go from logging what it returns as an error too, which is told
// once, by Diagnose. It is for the whole process.
func Quiet() { klog.SetLogger(klog.Logger{}) }

// Diagnose says what is likely to be behind an error of an API server and what to
// do about it. Errors that it knows nothing of stay as they are.
func Diagnose(err error) error {
	if err == nil {
		return nil
	}
	if missing, ok := errors.AsType[*meta.NoKindMatchError](err); ok {
		return noKind(missing, err)
	}
	switch {
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("no cluster is known: name a kubeconfig by --kubeconfig or KUBECONFIG (%w)", err)
	case apierrors.IsForbidden(err):
		return forbidden(err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not accept the credentials of this context: have they expired, or is it another --context? (%w)", err)
	}
	if request, ok := errors.AsType[*url.Error](err); ok && unreachable(err) {
		return fmt.Errorf("the API server does not answer: is it another --context, or is the cluster down? 'kubectl cluster-info' asks it too (%w)", request)
	}
	return err
}

func noKind(missing *meta.NoKindMatchError, err error) error {
	if missing.GroupKind.Group == gatewayv1.GroupName {
		return fmt.Errorf("the API server knows no %s: the CRDs of the Gateway API are not installed; "+
			"'kubectl apply --server-side -f %s' does that (%w)", missing.GroupKind.Kind, crds, err)
	}
	return fmt.Errorf("the API server knows no %s: the CRDs of %s are not installed (%w)", missing.GroupKind.Kind, missing.GroupKind.Group, err)
}

// refusal is how the API server says by RBAC that somebody may not do something.
// Webhooks answer 403 too, in words of their own.
var refusal = regexp.MustCompile(`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?`)

func forbidden(err error) error {
	m := refusal.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	verb, resource, group, namespace := m[1], m[2], m[3], m[4]
	if group != "" {
		resource += "." + group
	}
	role, where := "ClusterRole", " --all-namespaces"
	if namespace != "" {
		role, where = "Role", " -n "+namespace
	}
	return fmt.Errorf("you may not %s %s: ask for a %s with that verb on that resource; 'kubectl auth can-i %[1]s %[2]s%[4]s' tells when you have it (%[5]w)",
		verb, resource, role, where, err)
}

// unreachable reports whether there was no answer at all.
func unreachable(err error) bool {
	_, refused := errors.AsType[*net.OpError](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	return refused || unknown
}
