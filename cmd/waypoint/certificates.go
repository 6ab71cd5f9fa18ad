package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/app"
	"github.com/waypoint-mesh/waypoint/internal/certs"
	"github.com/waypoint-mesh/waypoint/internal/identity"
)

// certificateOptions are the flags of `waypoint run` for where its certificate
// comes from: files, Istio's CA or a SPIFFE agent.
type certificateOptions struct {
	cert, key, root string

	ca, caRoot, caToken string
	clusterID           string
	certTTL             time.Duration

	workloadAPI string
	identity    string
}

// istioTTL is what Istio's own proxies ask for (SECRET_TTL).
const istioTTL = 24 * time.Hour

func (o *certificateOptions) register(f *pflag.FlagSet) {
	f.StringVar(&o.cert, "cert", "", "our certificate and its intermediates, PEM; re-read when it changes")
	f.StringVar(&o.key, "key", "", "the certificate's private key, PEM")
	f.StringVar(&o.root, "root", "", "roots of the mesh, PEM")
	f.StringVar(&o.ca, "ca", "", "Istio's CA to get certificates from instead, HOST:PORT, which is istiod's port 15012; its certificate has to name HOST")
	f.StringVar(&o.caRoot, "ca-root", "", "roots by which the CA and the peers of the mesh are known, PEM; re-read when it changes")
	f.StringVar(&o.caToken, "ca-token", "", "file with the token of our service account for the audience istio-ca; read for each request")
	f.StringVar(&o.clusterID, "cluster-id", "", "which cluster issued that token, where istiod knows several; default: istiod's own")
	f.DurationVar(&o.certTTL, "cert-ttl", istioTTL, "lifetime to ask the CA for; certificates are renewed at about half of what they have")
	f.StringVar(&o.workloadAPI, "workload-api", "", "SPIFFE agent to get certificates from instead: the path of its socket, or unix:///PATH or tcp://IP:PORT")
	f.StringVar(&o.identity, "identity", "", "who the CA or the agent is to say we are, spiffe://...; default: the service account of --ca-token, the agent's first")
}

// check finds what is wrong with them. Exactly one source has to be given, whole.
func (o *certificateOptions) check(trustDomain string) error {
	files, ca := given(o.cert, o.key, o.root), given(o.ca, o.caRoot, o.caToken)
	sources := 0
	for _, source := range []int{files, ca, given(o.workloadAPI)} {
		sources += min(source, 1)
	}
	switch {
	case sources == 0:
		return cli.Usagef(`--cert, --key and --root are needed, unless --ca or --workload-api is where certificates come from. To make some for a first try:
  waypoint certs --out certs --id spiffe://%s/ns/default/sa/waypoint
and add: --cert certs/cert.pem --key certs/key.pem --root certs/ca.pem`, trustDomain)
	case sources > 1:
		return cli.Usagef("--cert, --key and --root, --ca, and --workload-api exclude each other: certificates come from one place")
	case files > 0 && files < 3:
		return cli.Usagef("--cert, --key and --root belong together: %d of the three are given", files)
	case ca > 0 && ca < 3:
		return cli.Usagef("--ca, --ca-root and --ca-token belong together: %d of the three are given", ca)
	case ca == 0 && o.clusterID != "":
		return cli.Usagef("--cluster-id belongs to --ca, which is not given")
	case files > 0 && o.identity != "":
		return cli.Usagef("--identity belongs to --ca or --workload-api, neither of which is given: the certificate of --cert says who we are")
	case o.certTTL < time.Second:
		return cli.Usagef("--cert-ttl: a second at least, got %v", o.certTTL)
	case ca > 0:
		return hostPort("ca", o.ca)
	}
	return nil
}

func given(flags ...string) (n int) {
	for _, f := range flags {
		if f != "" {
			n++
		}
	}
	return n
}

// apply turns the flags into what the waypoint is told, whose trust is told
// already.
func (o *certificateOptions) apply(to *app.Options) (err error) {
	to.Cert, to.Key, to.Root = o.cert, o.key, o.root
	to.CA, to.CARoot, to.CAToken, to.ClusterID, to.CertTTL = o.ca, o.caRoot, o.caToken, o.clusterID, o.certTTL
	if o.workloadAPI != "" {
		if to.WorkloadAPI, err = certs.WorkloadAddr(o.workloadAPI); err != nil {
			return cli.Usagef("--workload-api: %w", err)
		}
	}
	if o.identity == "" {
		return nil
	}
	if to.Identity, err = identity.Parse(o.identity); err != nil {
		return cli.Usagef("--identity: %w", err)
	}
	if !to.Trust.Has(to.Identity.TrustDomain) {
		return cli.Usagef("--identity: %s is of another trust domain than --trust-domain %s", o.identity, to.Trust.Domain)
	}
	return nil
}
