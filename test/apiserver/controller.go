package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SystemNamespace is that of deployments/manifests.
const SystemNamespace = "waypoint-system"

// Controller is one replica of the controller.
type Controller struct {
	// Discovery is the address that waypoints get their configuration from.
	Discovery string
	Log       *Log

	server          *Server
	program         string
	webhook, health int // ports
	process         *exec.Cmd
}

// NewController prepares a replica of the program, on ports of its own.
func (s *Server) NewController(program string) (*Controller, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	return &Controller{
		Discovery: fmt.Sprintf("localhost:%d", ports[0]), Log: new(Log),
		server: s, program: program, webhook: ports[1], health: ports[2],
	}, nil
}

// Start starts it, or starts it again, with the rights that its ServiceAccount
// has, and further arguments. It returns when the controller is ready.
func (c *Controller) Start(ctx context.Context, args ...string) error {
	token, err := c.server.Token(ctx, SystemNamespace, "waypoint-controller", "", 3600)
	if err != nil {
		return err
	}
	kubeconfig, err := c.server.Kubeconfig("controller", token)
	if err != nil {
		return err
	}
	c.process = exec.Command(c.program, append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + SystemNamespace, "--waypoint-image=example.invalid/waypoint:test",
		"--address=" + c.Discovery, "--discovery=" + c.Discovery, fmt.Sprintf("--webhook-port=%d", c.webhook),
		fmt.Sprintf("--health=127.0.0.1:%d", c.health), "--metrics=0", "--lease=4s",
	}, args...)...)
	c.process.Stdout, c.process.Stderr = c.Log, c.Log
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.process.Start(); err != nil {
		return err
	}
	return Until(ctx, func() error {
		return get(ctx, &http.Transport{DisableKeepAlives: true}, fmt.Sprintf("http://127.0.0.1:%d/readyz", c.health))
	})
}

// PID is that of its process.
func (c *Controller) PID() int { return c.process.Process.Pid }

// Stop ends it as a kubelet does; the error is that it did not end well.
func (c *Controller) Stop() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return c.process.Wait()
}

// Kill ends it at once, if it runs.
func (c *Controller) Kill() error {
	if c.process == nil || c.process.Process == nil || c.process.ProcessState != nil {
		return nil
	}
	err := c.process.Process.Kill()
	_ = c.process.Wait() // how it ended is no news: it was killed
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// PointWebhook has the API server ask this replica: the address of a Service leads
// nowhere here.
func (c *Controller) PointWebhook(ctx context.Context) error {
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	if err := c.server.Client.Get(ctx, client.ObjectKey{Name: "waypoint-controller"}, &config); err != nil {
		return err
	}
	before := config.DeepCopy()
	url := fmt.Sprintf("https://localhost:%d/validate", c.webhook)
	config.Webhooks[0].ClientConfig.Service, config.Webhooks[0].ClientConfig.URL = nil, &url
	return c.server.Client.Patch(ctx, &config, client.MergeFrom(before))
}
