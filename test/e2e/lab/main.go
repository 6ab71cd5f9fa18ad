package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// How the program that is run inside knows where it is.
const (
	nameVariable = "WAYPOINT_LAB_NAME"
	dirVariable  = "WAYPOINT_LAB_DIR"
)

// Main runs the tests of a package where there can be a lab, and returns the
// exit code.
func Main(m *testing.M) int {
	if os.Getenv(nameVariable) != "" || missing() != "" {
		return m.Run()
	}
	code, err := runInside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the lab:", err)
		return 1
	}
	return code
}

// missing says why there can be no lab, empty if there can.
func missing() string {
	if os.Geteuid() != 0 {
		return "not root: pods are network namespaces"
	}
	if os.Getenv("WAYPOINT_E2E_BIN") == "" {
		return "WAYPOINT_E2E_BIN is not set: make e2e"
	}
	for _, program := range programs() {
		if _, err := os.Stat(program); err != nil {
			return fmt.Sprintf("%v: make e2e", err)
		}
	}
	for _, tool := range []string{"ip", "nft", "nsenter", "curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err.Error()
		}
	}
	return ""
}

// programs are all that has to be built.
func programs() []string {
	all := []string{os.Getenv("WAYPOINT_CONTROLLER"), os.Getenv("WAYPOINT")}
	for _, name := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "pilot-discovery", "render", "wds", "minikubelet", "client", "server", "suite.test",
	} {
		all = append(all, filepath.Join(os.Getenv("WAYPOINT_E2E_BIN"), name))
	}
	return all
}

// runInside runs this program in a network namespace of its own. The name of it is
// short because interfaces are called after it, and is the process's, so that labs
// may run side by side.
func runInside() (code int, err error) {
	dir, err := os.MkdirTemp("", "waypoint-lab-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name := fmt.Sprintf("wl%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("ip netns add: %w: %s", err, out)
	}
	environment := append(os.Environ(), nameVariable+"="+name, dirVariable+"="+dir)
	defer func() {
		down := exec.Command("bash", script(), "down")
		down.Env = scriptEnvironment(environment)
		if out, failed := down.CombinedOutput(); failed != nil {
			err = errors.Join(err, fmt.Errorf("lab.sh down: %w: %s", failed, out))
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/" + name, "--", self}, os.Args[1:]...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, os.Stdout, os.Stderr
	// What ends the tests must not end us before we have cleaned up.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	err = cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), err
}

// repository is its root folder, as seen from that of the tests.
func repository() string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}

func script() string { return filepath.Join(repository(), "test/meshlab/lab.sh") }

// scriptEnvironment is what lab.sh needs to know, from an environment that has
// what [Main] puts there.
func scriptEnvironment(environment []string) []string {
	values := map[string]string{}
	for _, e := range environment {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	return append(os.Environ(),
		"LAB_NAME="+values[nameVariable], "LAB_DIR="+values[dirVariable], "BIN="+values["WAYPOINT_E2E_BIN"],
		"WAYPOINT_BIN="+values["WAYPOINT"], "CONTROLLER_BIN="+values["WAYPOINT_CONTROLLER"],
		"WAYPOINT=", "ZTUNNEL=", "KUBECONFIG=", "GOFLAGS=")
}
