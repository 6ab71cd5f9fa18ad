package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// The files of a folder that WriteDir fills.
const (
	CAFile    = "ca.pem"
	CAKeyFile = "ca-key.pem"
	CertFile  = "cert.pem"
	KeyFile   = "key.pem"
)

// WriteDir issues a certificate for id into dir, which it makes if need be. A CA
// that is there already is used again; else a new one is written too. Each file
// appears whole, and keys are readable by their owner only.
func WriteDir(dir string, id identity.ID, ttl time.Duration) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ca, err := openCA(dir)
	if err != nil {
		return err
	}
	cert, err := ca.Issue(id, ttl)
	if err != nil {
		return err
	}
	return WritePair(dir, cert)
}

// WritePair writes cert and its key into dir as cert.pem and key.pem.
func WritePair(dir string, cert *tls.Certificate) error {
	key, err := encodeKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	var chain []byte
	for _, der := range cert.Certificate {
		chain = append(chain, encode("CERTIFICATE", der)...)
	}
	if err := writeFile(filepath.Join(dir, KeyFile), key, 0o600); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, CertFile), chain, 0o644)
}

// openCA reads the CA of dir, or makes and writes one if there is none. Half of
// one is an error: to replace a CA silently would cut off all that trust it.
func openCA(dir string) (*CA, error) {
	certPath, keyPath := filepath.Join(dir, CAFile), filepath.Join(dir, CAKeyFile)
	certPEM, certErr := os.ReadFile(certPath)
	keyPEM, keyErr := os.ReadFile(keyPath)
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		return createCA(certPath, keyPath)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("the CA in %s is incomplete: remove both %s and %s for a new one: %w", dir, CAFile, CAKeyFile, err)
	}
	ca, err := LoadCA(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certPath, keyPath, err)
	}
	return ca, nil
}

func createCA(certPath, keyPath string) (*CA, error) {
	ca, err := NewCA()
	if err != nil {
		return nil, err
	}
	key, err := ca.KeyPEM()
	if err != nil {
		return nil, err
	}
	if err := writeFile(keyPath, key, 0o600); err != nil {
		return nil, err
	}
	return ca, writeFile(certPath, ca.CertPEM(), 0o644)
}

// writeFile replaces path by a rename, so that nobody reads half of it.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}
