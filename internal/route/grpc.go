package route

import (
	"fmt"
	"strings"
)

// IsGRPC reports whether a content type is gRPC's (gRPC over HTTP2, Requests):
// "application/grpc", with an encoding behind "+" or parameters behind ";".
// gRPC-Web is not.
func IsGRPC(contentType string) bool {
	const grpc = "application/grpc"
	if len(contentType) < len(grpc) || !strings.EqualFold(contentType[:len(grpc)], grpc) {
		return false
	}
	return len(contentType) == len(grpc) || strings.IndexByte("+; ", contentType[len(grpc)]) >= 0
}

// splitRPC splits "/service/method".
func splitRPC(path string) (service, rpc string, ok bool) {
	if !strings.HasPrefix(path, "/") {
		return "", "", false
	}
	service, rpc, ok = strings.Cut(path[1:], "/")
	return service, rpc, ok && !strings.Contains(rpc, "/")
}

// compileGRPC gives a gRPC match its place: a service with its method is an exact
// path, a service alone a prefix.
func (e *entry) compileGRPC(m *GRPCMatch) (err error) {
	if !m.Regex && strings.Contains(m.Service+m.Method, "/") {
		return fmt.Errorf("method: the names of service %q and method %q have no slash", m.Service, m.Method)
	}
	e.length, e.length2 = len(m.Service), len(m.Method)
	switch {
	case m.Service == "" && m.Method == "":
		e.class = rankRoot
	case m.Regex:
		return e.compileGRPCRegex(m)
	case m.Service == "":
		e.class = rankMethod
	case m.Method == "":
		e.class = rankPrefix
	default:
		e.class = rankExact
	}
	return nil
}

func (e *entry) compileGRPCRegex(m *GRPCMatch) (err error) {
	e.class = rankGRPCRegex
	if m.Service != "" {
		if e.service, err = compileRegex(m.Service); err != nil {
			return fmt.Errorf("method: service: %w", err)
		}
	}
	if m.Method != "" {
		if e.rpc, err = compileRegex(m.Method); err != nil {
			return fmt.Errorf("method: %w", err)
		}
	}
	return nil
}

// treePath is where an exact entry or a prefix stands in the tree.
func (e *entry) treePath() string {
	if m := e.match.GRPC; m != nil {
		return "/" + m.Service + strings.TrimSuffix("/"+m.Method, "/")
	}
	return e.match.Path.Value
}
