package gatewayapi

import (
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/waypoint-mesh/waypoint/internal/controller/feed"
)

// NewScheme knows all that the suite and the controller have to do with.
func NewScheme() (*runtime.Scheme, error) {
	scheme, err := feed.NewScheme()
	if err != nil {
		return nil, err
	}
	return scheme, errors.Join(apiextensionsv1.AddToScheme(scheme), metav1.AddMetaToScheme(scheme))
}
