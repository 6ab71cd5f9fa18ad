package ca

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Issuer follows the Secret, on every replica, and issues certificates from it.
type Issuer struct {
	names   []string
	log     *slog.Logger
	ready   chan struct{} // closed once there is a CA
	changed chan struct{} // the roots are others; holds one
	gone    chan struct{} // the Secret is gone; holds one

	mu    sync.Mutex // guards all below
	state State
	leaf  *tls.Certificate // nil: none yet of this signing root
}

// NewIssuer makes an issuer of certificates for DNS names.
func NewIssuer(log *slog.Logger, names ...string) *Issuer {
	return &Issuer{
		names: names, log: log,
		ready: make(chan struct{}), changed: make(chan struct{}, 1), gone: make(chan struct{}, 1),
	}
}

// Follow has the issuer told of the Secret by a cache, which needs to hold no other
// Secret.
func (i *Issuer) Follow(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &corev1.Secret{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { i.take(obj) },
		UpdateFunc: func(_, obj any) { i.take(obj) },
		DeleteFunc: func(any) { signal(i.gone) },
	})
	return err
}

func (i *Issuer) take(obj any) {
	if s, ok := obj.(*corev1.Secret); ok && s.Name == SecretName {
		i.adopt(stateOf(s))
	}
}

// adopt brings a state into force. One that cannot be used changes nothing.
func (i *Issuer) adopt(s State) {
	if _, err := s.Signing.parse(); err != nil {
		i.log.Error("the controller's CA cannot be read, so the last one stays", slog.String("secret", SecretName), slog.Any("error", err))
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	first := len(i.state.Signing.Cert) == 0
	if !bytes.Equal(s.Signing.Cert, i.state.Signing.Cert) {
		i.leaf = nil
	}
	others := !bytes.Equal(s.Trusted, i.state.Trusted)
	i.state = s
	if first {
		close(i.ready)
	}
	if others {
		signal(i.changed)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it was not noticed yet
	}
}

// Ready returns a channel that is closed once there is a CA.
func (i *Issuer) Ready() <-chan struct{} { return i.ready }

// Changed is sent to when the roots are others.
func (i *Issuer) Changed() <-chan struct{} { return i.changed }

// Gone is sent to when the Secret was deleted.
func (i *Issuer) Gone() <-chan struct{} { return i.gone }

// Roots returns all roots to trust, PEM; empty before Ready.
func (i *Issuer) Roots() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return string(i.state.Trusted)
}

var errNotReady = errors.New("the controller has no CA yet")

// Certificate returns what to serve with; it has the form of
// tls.Config.GetCertificate.
func (i *Issuer) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if i.leaf != nil && now.Before(i.leaf.Leaf.NotAfter.Add(-leafLife/2)) {
		return i.leaf, nil
	}
	if len(i.state.Signing.Cert) == 0 {
		return nil, errNotReady
	}
	leaf, err := i.state.Signing.issue(i.names, now)
	if err != nil {
		return nil, err
	}
	i.leaf = leaf
	return leaf, nil
}
