package gatewayapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serveExec is an API server that has nothing but exec in pods, for commands
// without input.
func (r *runner) serveExec() *rest.Config {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods/{pod}/exec", func(w http.ResponseWriter, req *http.Request) {
		streams, conn, err := acceptExec(w, req)
		if err != nil {
			r.t.Errorf("exec: %v", err)
			return
		}
		defer conn.Close()
		output, err := r.exec(req.Context(), req.PathValue("namespace"), req.PathValue("pod"), req.URL.Query()["command"])
		if err := finish(streams, output, err); err != nil {
			r.t.Errorf("exec: %v", err)
		}
	})
	server := httptest.NewServer(mux)
	r.t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1}
}

// acceptExec takes over the connection and waits for its three streams, by type.
func acceptExec(w http.ResponseWriter, r *http.Request) (map[string]httpstream.Stream, httpstream.Connection, error) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return nil, nil, err
	}
	opened := make(chan httpstream.Stream)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		go func() {
			<-replied
			opened <- s
		}()
		return nil
	})
	if conn == nil {
		return nil, nil, fmt.Errorf("no SPDY: %v", r.Header)
	}
	streams := make(map[string]httpstream.Stream)
	for len(streams) < 3 {
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return nil, nil, fmt.Errorf("closed after %d streams", len(streams))
		}
	}
	return streams, conn, nil
}

// finish sends the output of a command, and how it ended. The suite closes the
// connection as soon as it has both.
func finish(streams map[string]httpstream.Stream, output string, failure error) error {
	result := metav1.Status{Status: metav1.StatusSuccess}
	if failure != nil {
		result = metav1.Status{Status: metav1.StatusFailure, Message: failure.Error()}
	}
	end, err := json.Marshal(result)
	if err != nil {
		return err
	}
	for _, s := range []struct{ kind, text string }{
		{corev1.StreamTypeStdout, output}, {corev1.StreamTypeStderr, ""}, {corev1.StreamTypeError, string(end)},
	} {
		if _, err := io.WriteString(streams[s.kind], s.text); err != nil {
			return err
		}
		streams[s.kind].Close() // who has read the last may have gone
	}
	return nil
}

// exec runs a command in a pod: there is one, "client".
func (r *runner) exec(ctx context.Context, namespace, name string, args []string) (string, error) {
	var pod corev1.Pod
	if err := r.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
		return "", err
	}
	cmd, err := parseCommand(args)
	if err != nil {
		return "", err
	}
	return r.call(ctx, &pod, cmd)
}
