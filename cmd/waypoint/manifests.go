package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/waypoint-mesh/waypoint/cmd/internal/cli"
	"github.com/waypoint-mesh/waypoint/internal/files"
	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// manifests are the flags of a command that reads manifests as `waypoint run` does.
type manifests struct {
	config, gateway    string
	trustDomain        string
	trustDomainAliases []string
}

func (m *manifests) register(f *pflag.FlagSet) {
	f.StringVar(&m.config, "config", "", "folder (recursive) or file of Kubernetes manifests")
	f.StringVar(&m.gateway, "gateway", "", "as which waypoint, NAMESPACE/NAME; default: the only Gateway of class waypoint")
	f.StringVar(&m.trustDomain, "trust-domain", "cluster.local", "trust domain of the mesh")
	f.StringSliceVar(&m.trustDomainAliases, "trust-domain-aliases", nil, "further names of the trust domain")
}

// source is what package files is told of them.
func (m *manifests) source() files.Options {
	return files.Options{
		Path: m.config, Gateway: m.gateway,
		Translate: translate.Options{TrustDomain: m.trustDomain, TrustDomainAliases: m.trustDomainAliases},
	}
}

// checkGateway wants a --gateway that is given to be NAMESPACE/NAME.
func checkGateway(gateway string) error {
	namespace, name, ok := strings.Cut(gateway, "/")
	if gateway != "" && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return cli.Usagef("--gateway: %q is not NAMESPACE/NAME", gateway)
	}
	return nil
}
