package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/test/apiserver"
	"github.com/waypoint-mesh/waypoint/test/e2e/lab"
)

// kubectl is the real one, with the plugin on its PATH.
type kubectl struct {
	*lab.Story
	path string
}

func newKubectl(s *lab.Story) kubectl {
	s.Helper()
	program := os.Getenv("KUBECTL_WAYPOINT")
	if program == "" {
		s.Skip("KUBECTL_WAYPOINT is not set: make e2e")
	}
	dir := s.TempDir()
	for _, name := range []string{"kubectl-waypoint", "kubectl_complete-waypoint"} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			s.Fatal(err)
		}
	}
	return kubectl{s, dir}
}

// command is kubectl with arguments, in the story's namespace.
func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("WAYPOINT_E2E_BIN"), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.Kubeconfig, "KUBECACHEDIR="+k.path, "PATH="+k.path+":"+os.Getenv("PATH"))
	return cmd
}

// waypoint runs `kubectl waypoint COMMAND -n NS ARGUMENTS`.
func (k kubectl) waypoint(command string, args ...string) (out, stderr string, err error) {
	k.Helper()
	cmd := k.command(k.Context(), append([]string{"waypoint", command, "-n", k.NS}, args...)...)
	var stdout, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &said
	err = cmd.Run()
	return stdout.String(), said.String(), err
}

// says wants a command to do its work, and to print all of this.
func (k kubectl) says(want []string, command string, args ...string) string {
	k.Helper()
	out, stderr, err := k.waypoint(command, args...)
	if err != nil {
		k.Fatalf("%s %q: %v\n%s%s", command, args, err, out, stderr)
	}
	for _, w := range want {
		if !strings.Contains(out+stderr, w) {
			k.Errorf("%s %q: no %q in\n%s%s", command, args, w, out, stderr)
		}
	}
	return out
}

// TestKubectlAsksTheWaypoint: what only the running waypoint knows comes through
// API server and kubelet from the loopback address of its pod.
func TestKubectlAsksTheWaypoint(t *testing.T) {
	s := newShop(t, cartRoute, cartPolicy)
	k := newKubectl(s)
	web := "spiffe://cluster.local/ns/" + s.NS + "/sa/web"
	cart := "cart." + s.NS + ".svc.cluster.local"
	s.Answers(s.HTTP("web"), "GET", "http://cart/", 200, "v2", "canary", "yes") // the waypoint has everything

	k.says([]string{"cart-v2", "HTTPRoute " + s.NS + "/cart"}, "explain", "--from", web, "--to", cart+":80", "GET", "/", "-H", "canary: yes")
	k.says([]string{"403", s.NS + "/cart"}, "explain", "--from", web, "--to", cart+":80", "POST", "/")
	var answer struct{ Outcome struct{ Forwarded bool } }
	if err := json.Unmarshal([]byte(k.says(nil, "explain", "--name", "waypoint", "-o", "json", "--from", web, "--to", cart+":80", "GET", "/")), &answer); err != nil || !answer.Outcome.Forwarded {
		t.Errorf("%+v, %v", answer, err)
	}

	k.says([]string{s.NS + "/" + cart, "ALLOW " + s.NS + "/cart"}, "config")
	var service struct{ Hostname string }
	if err := json.Unmarshal([]byte(k.says(nil, "config", "waypoint", "--service", s.NS+"/cart", "-o", "json")), &service); err != nil || service.Hostname != cart {
		t.Errorf("%+v, %v", service, err)
	}
	if _, stderr, err := k.waypoint("config", "--service", "nowhere/none"); err == nil || !strings.Contains(stderr, "NAMESPACE/HOSTNAME") {
		t.Errorf("a service that is not there: %v %s", err, stderr)
	}

	k.says([]string{"Pods", "1/1", "Service " + s.NS + "/cart", "bound", "in force", "Enforced"}, "status")
	k.says([]string{s.NS, "1/1", "True"}, "list")
}

// TestKubectlLogs: a level that is set holds at once, and whoever follows sees what
// is logged from then on.
func TestKubectlLogs(t *testing.T) {
	s := newShop(t)
	k := newKubectl(s)
	pod := s.WaypointPods("waypoint")[0].Name
	if lines := strings.Count(k.says(nil, "logs", "--tail", "1"), "\n"); lines != 1 {
		t.Errorf("the last line is %d lines", lines)
	}
	k.says([]string{"pod " + pod + " logs at level debug now"}, "logs", "--level", "debug", "--tail", "0")

	follow := k.command(t.Context(), "waypoint", "logs", "-n", s.NS, "-f", "--tail", "1")
	seen := &apiserver.Log{}
	follow.Stdout = seen
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the log is followed", func() error {
		if seen.String() == "" {
			return errors.New("nothing is seen")
		}
		return nil
	})
	s.Delete(&corev1.Pod{}, pod)
	s.Eventually("what it says last is seen", func() error {
		if !strings.Contains(seen.String(), "draining") {
			return errors.New("seen is: " + seen.String())
		}
		return nil
	})
	if err := follow.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := follow.Wait(); err != nil {
		t.Errorf("whoever has seen enough: %v", err)
	}
	s.Available("waypoint")
	k.says([]string{"level info"}, "logs", "waypoint", "--level", "info", "--tail", "0")
}

// TestKubectlWithoutAPod: the fault names what is missing.
func TestKubectlWithoutAPod(t *testing.T) {
	s := newShop(t)
	k := newKubectl(s)
	var d appsv1.Deployment
	if err := s.Get("waypoint", &d); err != nil {
		t.Fatal(err)
	}
	before := d.DeepCopy()
	none := int32(0)
	d.Spec.Replicas = &none
	if err := s.Client.Patch(t.Context(), &d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the waypoint has no pod", func() error {
		_, stderr, err := k.waypoint("config")
		if err == nil || !strings.Contains(stderr, "has no pod: scaled to 0") {
			return errors.New(stderr)
		}
		return nil
	})
	s.Eventually("the status says what becomes of requests", func() error {
		if out, _, _ := k.waypoint("status"); !strings.Contains(out, "AddressNotUsable") {
			return errors.New(out)
		}
		return nil
	})
}

// TestKubectlCompletes: kubectl completes the plugin's commands and names.
func TestKubectlCompletes(t *testing.T) {
	s := newShop(t)
	k := newKubectl(s)
	for want, line := range map[string][]string{
		"explain":        {"waypoint", "exp"},
		"waypoint\n":     {"waypoint", "status", "-n", s.NS, ""},
		s.NS + "\n":      {"waypoint", "list", "-n", s.NS[:4]},
		"workload\n":     {"waypoint", "apply", "--for", "w"},
		s.NS + "/cart\n": {"waypoint", "config", "-n", s.NS, "--service", ""},
	} {
		out, err := k.command(t.Context(), append([]string{"__complete"}, line...)...).Output()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: no %q in %q, %v", line, want, out, err)
		}
	}
}
