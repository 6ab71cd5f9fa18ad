package identity

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
)

var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// tagURI is the context tag of uniformResourceIdentifier in a GeneralName, RFC
// 5280 section 4.2.1.6.
const tagURI = 6

// FromCertificate returns the identity that cert states: its one URI SAN. None
// or several are an error, as the X.509-SVID specification section 2 demands.
//
// The SAN is read from the extension's own bytes. What net/url made of them
// would do for honest certificates, but it forgets an empty fragment and undoes
// escapes, and then two certificates that differ name one workload.
func FromCertificate(cert *x509.Certificate) (ID, error) {
	uris, err := uriSANs(cert)
	if err != nil {
		return ID{}, err
	}
	if len(uris) != 1 {
		return ID{}, fmt.Errorf("certificate of serial %x has %d URI SANs, want exactly one: the SPIFFE identity", cert.SerialNumber, len(uris))
	}
	return Parse(uris[0])
}

func uriSANs(cert *x509.Certificate) ([]string, error) {
	var uris []string
	for _, ext := range cert.Extensions {
		if !ext.Id.Equal(oidSubjectAltName) {
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(ext.Value, &names); err != nil || len(rest) > 0 {
			return nil, errors.New("certificate with a malformed subject alternative name")
		}
		for _, n := range names {
			if n.Class == asn1.ClassContextSpecific && n.Tag == tagURI {
				uris = append(uris, string(n.Bytes))
			}
		}
	}
	return uris, nil
}
