package kubectl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LogOptions say which part of a log is wanted.
type LogOptions struct {
	Follow bool
	Tail   int64         // lines of each pod; negative: all
	Since  time.Duration // 0: from the start
}

// Logs copies the logs of pods to w, lines of several pods with the pod's name in
// front. With Follow it ends when the pods do, or with ctx, which is no error.
func (c *Cluster) Logs(ctx context.Context, pods []corev1.Pod, o LogOptions, w io.Writer) error {
	out := &lines{w: w}
	failed := make([]error, len(pods))
	var all sync.WaitGroup
	for i := range pods {
		prefix := ""
		if len(pods) > 1 {
			prefix = "[" + pods[i].Name + "] "
		}
		copyLog := func() { failed[i] = c.log(ctx, &pods[i], o, prefix, out) }
		if o.Follow {
			all.Go(copyLog)
		} else {
			copyLog() // one after the other: each log as a whole
		}
	}
	all.Wait()
	return errors.Join(failed...)
}

func (c *Cluster) log(ctx context.Context, p *corev1.Pod, o LogOptions, prefix string, out *lines) error {
	request := &corev1.PodLogOptions{Container: container(p), Follow: o.Follow}
	if o.Tail >= 0 {
		request.TailLines = &o.Tail
	}
	if o.Since > 0 {
		seconds := int64(max(1, o.Since/time.Second))
		request.SinceSeconds = &seconds
	}
	stream, err := c.core.Pods(p.Namespace).GetLogs(p.Name, request).Stream(ctx)
	if err != nil {
		return fmt.Errorf("log of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	defer stream.Close()
	err = out.copy(prefix, stream)
	if ctx.Err() != nil {
		return nil // the user has seen enough
	}
	return err
}

// container is the one of the waypoint, whatever else an overlay has added.
func container(p *corev1.Pod) string {
	for _, c := range p.Spec.Containers {
		if c.Name == "waypoint" {
			return c.Name
		}
	}
	return p.Spec.Containers[0].Name
}

// lines writes whole lines of several streams.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) copy(prefix string, r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			if prefix != "" && !strings.HasSuffix(line, "\n") {
				line += "\n" // the next one is another pod's
			}
			l.mu.Lock()
			_, failed := io.WriteString(l.w, prefix+line)
			l.mu.Unlock()
			if failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
