package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsPath is where Go, OpenSSL and everybody else looks first.
const rootsPath = "/etc/ssl/certs/ca-certificates.crt"

// roots are those of public CAs, for collectors and key sets outside of the mesh. Those that Mozilla trusts for
// certificates before a certain day only are left out: PEM cannot say that, and trust without it would be more than
// theirs.
func roots() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
