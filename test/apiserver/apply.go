package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Install applies the CRDs and what a user would apply to have the controller.
func (s *Server) Install(ctx context.Context) error {
	dirs := make(map[string]string)
	for _, module := range []string{"sigs.k8s.io/gateway-api", "istio.io/api", "github.com/waypoint-mesh/waypoint"} {
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return fmt.Errorf("where module %s is: %w", module, err)
		}
		dirs[module] = strings.TrimSpace(string(out))
	}
	files, err := filepath.Glob(filepath.Join(dirs["sigs.k8s.io/gateway-api"], "config/crd/standard/gateway*.yaml"))
	if err != nil {
		return err
	}
	files = append(files, filepath.Join(dirs["istio.io/api"], "kubernetes/customresourcedefinitions.gen.yaml"),
		filepath.Join(dirs["github.com/waypoint-mesh/waypoint"], "deployments/manifests/waypoint-controller.yaml"))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// A CRD is served a moment after it is stored.
		if err := Until(ctx, func() error { return s.Apply(ctx, string(content)) }); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// Apply applies manifests as kubectl apply --server-side would.
func (s *Server) Apply(ctx context.Context, manifests string) error {
	reader := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		obj := &unstructured.Unstructured{}
		switch err := reader.Decode(obj); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(obj.Object) == 0:
			continue
		}
		err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("kubectl"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// Token makes one of a ServiceAccount. Without an audience it is for the API server.
func (s *Server) Token(ctx context.Context, namespace, account, audience string, seconds int64) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	sa := &corev1.ServiceAccount{}
	sa.Namespace, sa.Name = namespace, account
	err := s.Client.SubResource("token").Create(ctx, sa, request)
	return request.Status.Token, err
}

// Kubeconfig writes one with a token, and returns its path; an empty token is that
// of a user who may do everything.
func (s *Server) Kubeconfig(name, token string) (string, error) {
	if token == "" {
		token = adminToken
	}
	path := filepath.Join(s.dir, name+".kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.host, InsecureSkipTLSVerify: true}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	return path, clientcmd.WriteToFile(*config, path)
}
