package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controllerPods selects them in [ControllerNamespace].
const controllerPods = "app.kubernetes.io/name=waypoint-controller"

// Controllers are the pods of the controller.
func (s *Story) Controllers() []corev1.Pod {
	s.Helper()
	return s.podsIn(ControllerNamespace, controllerPods)
}

// Down stops a component for as long as meanwhile takes.
func (s *Story) Down(component string, meanwhile func()) {
	s.Helper()
	if err := s.Stop(s.Context(), component); err != nil {
		s.Fatal(err)
	}
	defer func() {
		if err := s.Start(s.Context(), component); err != nil {
			s.Fatal(err)
		}
	}()
	meanwhile()
}

// Leader is the pod of the controller that leads.
func (s *Story) Leader() *corev1.Pod {
	s.Helper()
	var leader *corev1.Pod
	s.Eventually("a replica of the controller leads", func() error {
		name, _, _ := strings.Cut(s.holder(), "_")
		pods, err := s.Pods(s.Context(), ControllerNamespace, controllerPods)
		for i := range pods {
			if pods[i].Name == name {
				leader = &pods[i]
				return nil
			}
		}
		return fmt.Errorf("the lease is held by %q: %w", name, err)
	})
	return leader
}

// holder is what the lease of the controller says, the pod's name and a number of
// the process's own.
func (s *Story) holder() string {
	var lease coordinationv1.Lease
	err := s.Client.Get(s.Context(), client.ObjectKey{Namespace: ControllerNamespace, Name: "waypoint-controller"}, &lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// AnotherLeads does what ends the leader, and waits until another process leads.
func (s *Story) AnotherLeads(after func()) {
	s.Helper()
	s.Leader()
	before := s.holder()
	after()
	s.Eventually("another replica leads", func() error {
		if now := s.holder(); now == "" || now == before {
			return fmt.Errorf("the lease is held by %q", now)
		}
		return nil
	})
}

// Kill kills the processes of a pod, which gives them no chance to say farewell. They
// are started again as a kubelet does.
func (s *Story) Kill(p *corev1.Pod) {
	s.Helper()
	netns, err := os.Stat(filepath.Join(s.dir, "node/pods", p.Namespace+"_"+p.Name, "netns"))
	if err != nil {
		s.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		s.Fatal(err)
	}
	killed := 0
	for _, path := range all {
		if info, err := os.Stat(path); err != nil || !os.SameFile(info, netns) {
			continue // it has ended, or is another's
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			s.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed++
		}
	}
	if killed == 0 {
		s.Fatalf("pod %s has no process", p.Name)
	}
}

// Restart replaces the pods of a Deployment by new ones, as kubectl rollout restart
// does, and returns when the new ones are ready and the old ones on their way out.
func (s *Story) Restart(namespace, name string) {
	s.Helper()
	s.Patch(&appsv1.Deployment{}, namespace, name, fmt.Sprintf(
		`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339)))
	s.Eventually("the pods are new", func() error { return s.Lab.Available(s.Context(), namespace, name) })
}

// Gone waits until pods have ended.
func (s *Story) Gone(pods []corev1.Pod) {
	s.Helper()
	for _, p := range pods {
		s.Eventually("pod "+p.Name+" has ended", func() error {
			err := s.Client.Get(s.Context(), client.ObjectKeyFromObject(&p), &corev1.Pod{})
			if err == nil {
				return errors.New("it is there")
			}
			return client.IgnoreNotFound(err)
		})
	}
}
