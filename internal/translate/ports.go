package translate

import (
	"strings"

	"github.com/waypoint-mesh/waypoint/api/istio/workload"
)

// Application protocols by Istio's words, which stand in appProtocol, in a ServiceEntry's protocol, or before the first "-"
// of a port's name. Words that are not here are sniffed.
var protocolWords = map[string]workload.AppProtocol{
	"http":       workload.AppProtocol_HTTP11,
	"http_proxy": workload.AppProtocol_HTTP11,
	"http2":      workload.AppProtocol_HTTP2,
	"grpc":       workload.AppProtocol_GRPC,
	"tcp":        workload.AppProtocol_TCP,
	"mongo":      workload.AppProtocol_TCP,
	"redis":      workload.AppProtocol_TCP,
	"mysql":      workload.AppProtocol_TCP,
	"tls":        workload.AppProtocol_TLS,
	"https":      workload.AppProtocol_TLS,
}

// Kubernetes' own values of appProtocol (KEP-3726). wss is TLS to us: we do not hold the service's key.
var kubernetesProtocols = map[string]workload.AppProtocol{
	"kubernetes.io/h2c": workload.AppProtocol_HTTP2,
	"kubernetes.io/ws":  workload.AppProtocol_HTTP11,
	"kubernetes.io/wss": workload.AppProtocol_TLS,
}

// serverFirst are ports whose servers speak first: nothing would come to sniff, so they are TCP unless declared otherwise.
var serverFirst = map[uint32]bool{25: true, 53: true, 3306: true, 27017: true}

// appProtocol tells what a port speaks: by the Service port's appProtocol, else the EndpointSlice port's, else the port's
// name. A declared value that is not known is sniffed; it does not fall back to the next.
func appProtocol(service, slice *string, name string, port uint32) workload.AppProtocol {
	word := name
	for _, declared := range []*string{slice, service} {
		if declared != nil && *declared != "" {
			word = *declared
		}
	}
	if p, ok := kubernetesProtocols[word]; ok {
		return p
	}
	if p := protocolByWord(word); p != workload.AppProtocol_UNKNOWN {
		return p
	}
	if serverFirst[port] {
		return workload.AppProtocol_TCP
	}
	return workload.AppProtocol_UNKNOWN
}

// protocolByWord reads "http", "HTTP-admin" or "grpc-web-x".
func protocolByWord(word string) workload.AppProtocol {
	word = strings.ToLower(word)
	if strings.HasPrefix(word, "grpc-web") {
		return workload.AppProtocol_HTTP11 // gRPC-Web is plain HTTP to a proxy that does not translate it
	}
	word, _, _ = strings.Cut(word, "-")
	return protocolWords[word]
}
