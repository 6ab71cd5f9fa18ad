package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	adminToken = "admin-of-the-test"
	// systemNamespace is that of deployments/manifests.
	systemNamespace = "waypoint-system"
	patience        = 30 * time.Second
)

// cluster is etcd, an API server, and a controller.
type cluster struct {
	dir    string
	host   string // of the API server
	admin  client.Client
	procs  []*exec.Cmd
	output map[string]*bytes.Buffer // of processes, by name

	controller *running // the replica that was started first
}

// start starts everything, and fails if that takes long. The cluster is to be
// stopped in any case.
func start(bin, dir string) (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := &cluster{dir: dir, output: make(map[string]*bytes.Buffer)}
	for _, step := range []func() error{
		func() error { return c.startEtcd(bin) },
		func() error { return c.startAPIServer(ctx, bin) },
		func() error { return c.connect() },
		func() error { return c.install(ctx) },
		func() error { return c.startController(ctx) },
		func() error { return c.pointWebhook(ctx) },
	} {
		if err := step(); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *cluster) stop() {
	if c.controller != nil && c.controller.process != nil {
		_ = c.controller.process.Process.Kill() // it may have ended
		_ = c.controller.process.Wait()
	}
	for i := len(c.procs) - 1; i >= 0; i-- {
		_ = c.procs[i].Process.Kill()
		_ = c.procs[i].Wait()
	}
}

func (c *cluster) logs() string {
	var all strings.Builder
	for name, output := range c.output {
		lines := strings.Split(output.String(), "\n")
		fmt.Fprintf(&all, "--- %s\n%s\n", name, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	return all.String()
}

func (c *cluster) spawn(path string, args ...string) error {
	name := filepath.Base(path)
	cmd := exec.Command(path, args...)
	c.output[name] = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = c.output[name], c.output[name]
	if err := cmd.Start(); err != nil {
		return err
	}
	c.procs = append(c.procs, cmd)
	return nil
}

// freePort is one that nobody listened at a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (c *cluster) startEtcd(bin string) error {
	clients, err := freePort()
	if err != nil {
		return err
	}
	peers, err := freePort()
	if err != nil {
		return err
	}
	c.host = fmt.Sprintf("http://127.0.0.1:%d", clients)
	peer := fmt.Sprintf("http://127.0.0.1:%d", peers)
	return c.spawn(filepath.Join(bin, "etcd"), "--name=test", "--data-dir="+filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+c.host, "--advertise-client-urls="+c.host, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=test="+peer)
}

func (c *cluster) startAPIServer(ctx context.Context, bin string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	key, err := c.signingKey()
	if err != nil {
		return err
	}
	users := filepath.Join(c.dir, "users.csv")
	if err := os.WriteFile(users, []byte(adminToken+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	etcd := c.host
	c.host = fmt.Sprintf("https://127.0.0.1:%d", port)
	err = c.spawn(filepath.Join(bin, "kube-apiserver"), "--etcd-servers="+etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--cert-dir="+filepath.Join(c.dir, "certs"),
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--token-auth-file="+users,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--api-audiences=https://kubernetes.default.svc", "--profiling=false")
	if err != nil {
		return err
	}
	return c.readyz(ctx)
}

func (c *cluster) signingKey() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, "sa.key")
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return path, os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
}

func (c *cluster) readyz(ctx context.Context) error {
	transport, err := rest.TransportFor(c.config(adminToken))
	if err != nil {
		return err
	}
	return until(ctx, func() error { return get(ctx, transport, c.host+"/readyz") })
}

// config is how to reach the API server with a token. Its certificate is one that
// it made itself a moment ago.
func (c *cluster) config(token string) *rest.Config {
	return &rest.Config{Host: c.host, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

func (c *cluster) connect() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, gatewayv1.Install, networkingv1.AddToScheme, securityv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	c.admin, err = client.New(c.config(adminToken), client.Options{Scheme: scheme})
	return err
}

// install applies the CRDs and what a user would apply to have the controller, save
// that the controller runs here and not in a pod.
func (c *cluster) install(ctx context.Context) error {
	gatewayAPI, err := moduleDir("sigs.k8s.io/gateway-api")
	if err != nil {
		return err
	}
	istioAPI, err := moduleDir("istio.io/api")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(gatewayAPI, "config/crd/standard/gateway*.yaml"))
	if err != nil {
		return err
	}
	files = append(files, filepath.Join(istioAPI, "kubernetes/customresourcedefinitions.gen.yaml"), "../../deployments/manifests/waypoint-controller.yaml")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// A CRD is served a moment after it is stored.
		if err := until(ctx, func() error { return c.apply(ctx, string(content)) }); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// pointWebhook: the address of a Service leads nowhere here.
func (c *cluster) pointWebhook(ctx context.Context) error {
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	if err := c.admin.Get(ctx, client.ObjectKey{Name: "waypoint-controller"}, &config); err != nil {
		return err
	}
	before := config.DeepCopy()
	url := fmt.Sprintf("https://localhost:%d/validate", c.controller.webhook)
	config.Webhooks[0].ClientConfig.Service, config.Webhooks[0].ClientConfig.URL = nil, &url
	return c.admin.Patch(ctx, &config, client.MergeFrom(before))
}

func moduleDir(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	return strings.TrimSpace(string(out)), err
}

// apply applies manifests as kubectl apply --server-side would.
func (c *cluster) apply(ctx context.Context, manifests string) error {
	reader := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := reader.Decode(obj); err != nil {
			if strings.Contains(err.Error(), "EOF") {
				return nil
			}
			return err
		}
		if len(obj.Object) == 0 {
			continue
		}
		err := c.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("kubectl"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// token makes one of a ServiceAccount.
func (c *cluster) token(ctx context.Context, namespace, account, audience string, seconds int64) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	sa := &corev1.ServiceAccount{}
	sa.Namespace, sa.Name = namespace, account
	err := c.admin.SubResource("token").Create(ctx, sa, request)
	return request.Status.Token, err
}

// kubeconfig writes one with a token.
func (c *cluster) kubeconfig(name, token string) (string, error) {
	path := filepath.Join(c.dir, name+".kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: c.host, InsecureSkipTLSVerify: true}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	return path, clientcmd.WriteToFile(*config, path)
}

// until tries until there is no error, or ctx ends; then the error is the last one.
func until(ctx context.Context, try func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
