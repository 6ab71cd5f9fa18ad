package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The timeouts of all three ports. writeTimeout is what a profile of 30 seconds
// needs; the live view, which has no end, moves its own along.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 15 * time.Second
	writeTimeout    = time.Minute
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 3 * time.Second
	maxHeader       = 16 << 10
)

// Server is one HTTP port.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen binds addr, so that what is wrong with it shows before anything runs.
// An empty host is every address of both families.
func Listen(name, addr string, h http.Handler, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s port %q (another waypoint running, or no such address?): %w", name, addr, err)
	}
	return &Server{listener, &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.With("port", name).Handler(), slog.LevelDebug),
	}}, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers until ctx ends; then it lets requests under way come to their
// end for a few seconds. Those that have none, like the live view, are told by
// the end of their own context.
func (s *Server) Serve(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("port %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(limited); errors.Is(err, context.DeadlineExceeded) {
		return s.http.Close()
	} else if err != nil {
		return fmt.Errorf("port %s: %w", s.Addr(), err)
	}
	return nil
}

// Close gives up the port of a server that has not served.
func (s *Server) Close() error { return s.listener.Close() }
