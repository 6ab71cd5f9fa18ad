package gatewayapi

import (
	"errors"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// NewScheme knows all that the suite and the controller have to do with.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	var errs []error
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, gatewayv1.Install, networkingv1.AddToScheme, securityv1.AddToScheme,
		apiextensionsv1.AddToScheme, metav1.AddMetaToScheme,
	} {
		errs = append(errs, add(scheme))
	}
	return scheme, errors.Join(errs...)
}
