package ca

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretName is that of the Secret, in the controller's namespace.
const SecretName = "waypoint-controller-ca"

// Keys of the Secret.
const (
	keySigningCert = "ca.crt"
	keySigningKey  = "ca.key"
	keyNextCert    = "next.crt"
	keyNextKey     = "next.key"
	keyTrusted     = "roots.pem"
)

func stateOf(s *corev1.Secret) State {
	return State{
		Signing: Root{s.Data[keySigningCert], s.Data[keySigningKey]},
		Next:    Root{s.Data[keyNextCert], s.Data[keyNextKey]},
		Trusted: s.Data[keyTrusted],
	}
}

func (s State) data() map[string][]byte {
	d := map[string][]byte{keySigningCert: s.Signing.Cert, keySigningKey: s.Signing.Key, keyTrusted: s.Trusted}
	if len(s.Next.Cert) > 0 {
		d[keyNextCert], d[keyNextKey] = s.Next.Cert, s.Next.Key
	}
	return d
}

// Keeper makes the Secret and rotates it. It runs on the leader.
type Keeper struct {
	Client    client.Client
	Live      client.Reader // past the cache
	Namespace string
	Log       *slog.Logger
	// Gone tells that the Secret was deleted, so that it is made anew at once.
	Gone <-chan struct{}
}

const (
	lookEvery = time.Hour
	// lookAgain after what failed: without the Secret no replica can serve.
	lookAgain = 2 * time.Second
)

// Start looks after the Secret until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := lookEvery
		if err := k.keep(ctx, time.Now()); err != nil {
			k.Log.Error("the controller's CA could not be looked after", slog.Any("error", err))
			wait = lookAgain
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-k.Gone:
		case <-ctx.Done():
			next.Stop()
			return nil
		}
		next.Stop()
	}
}

// NeedLeaderElection has it run on the leader only.
func (k *Keeper) NeedLeaderElection() bool { return true }

func (k *Keeper) keep(ctx context.Context, now time.Time) error {
	secret := &corev1.Secret{}
	err := k.Live.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: SecretName}, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	state, changed, err := Rotate(stateOf(secret), now)
	if err != nil {
		return fmt.Errorf("Secret %s/%s: %w; delete it to begin with a new CA, which waypoints learn of within about a minute", //nolint:staticcheck // a kind's name
			k.Namespace, SecretName, err)
	}
	if !changed {
		return nil
	}
	secret.Data = state.data()
	if !missing {
		return k.Client.Update(ctx, secret) // fails if somebody wrote it since
	}
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: k.Namespace, Name: SecretName}
	return k.Client.Create(ctx, secret)
}
