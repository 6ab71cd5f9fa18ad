package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward opens a way to a port of a pod, by way of the API server and the pod's
// kubelet, and returns where it begins: "127.0.0.1:45678". It lasts until end.
func (c *Cluster) forward(ctx context.Context, p *corev1.Pod, port int) (address string, end func(), err error) {
	dialer, err := c.dialer(c.core.RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("portforward").URL())
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	opened := make(chan struct{})
	f, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)},
		opened, nil, io.Discard)
	if err != nil {
		cancel()
		return "", nil, err
	}
	ended := make(chan struct{})
	var failed error // once it has ended
	go func() {
		failed = f.ForwardPorts()
		close(ended)
	}()
	select {
	case <-opened:
	case <-ended:
		cancel()
		return "", nil, fmt.Errorf("port-forward to pod %s/%s: %w", p.Namespace, p.Name, errors.Join(failed, ctx.Err()))
	}
	ports, err := f.GetPorts()
	if err != nil {
		cancel()
		return "", nil, err
	}
	end = func() {
		cancel()
		<-ended
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), end, nil
}

// dialer tries WebSockets first, which every proxy on the way knows, and SPDY with
// API servers that are too old for those.
func (c *Cluster) dialer(target *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, c.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(tunnel, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
