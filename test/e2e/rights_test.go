package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/waypoint-mesh/waypoint/test/apiserver"
)

// account is who the controller is to the API server.
const account = "system:serviceaccount:" + apiserver.SystemNamespace + ":waypoint-controller"

// right is what may be done with a kind, such as "patch gateways/status.gateway.networking.k8s.io".
type right struct{ verb, resource, group string }

func (r right) String() string {
	return strings.TrimSuffix(r.verb+" "+r.resource+"."+r.group, ".")
}

// auditFlags has the API server write down what the controller does, and the name
// of the file.
func auditFlags(dir string) (flags []string, path string, err error) {
	policy := filepath.Join(dir, "audit-policy.yaml")
	path = filepath.Join(dir, "audit.log")
	err = os.WriteFile(policy, []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["`+account+`"]
- level: None
`), 0o600)
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + path}, path, err
}

// audit is one line of the log, as far as it matters here.
type audit struct {
	Verb      string
	ObjectRef *struct{ Resource, Subresource, APIGroup string }
	Response  struct{ Code int } `json:"responseStatus"`

	Annotations map[string]string
}

// checkRights compares what the controller did with what it may do: it has to have
// been refused nothing, and to have used everything.
func checkRights(ctx context.Context, c client.Client, log string) error {
	used, refused, err := usedRights(log)
	if err != nil {
		return err
	}
	granted, err := grantedRights(ctx, c)
	if err != nil {
		return err
	}
	var faults []string
	for r := range refused {
		faults = append(faults, "is not granted, and was asked for: "+r.String())
	}
	for r := range granted {
		if !needed(r, used) {
			faults = append(faults, "is granted, and no test needs it: "+r.String())
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return fmt.Errorf("rights of the controller, deployments/chart/templates/rbac.yaml:\n  %s", strings.Join(faults, "\n  "))
}

// needed: who watches also lists, where the API server does not begin a watch with
// what there is.
func needed(r right, used map[right]bool) bool {
	return used[r] || r.verb == "list" && used[right{"watch", r.resource, r.group}]
}

func usedRights(log string) (used, refused map[right]bool, err error) {
	f, err := os.Open(log)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	used, refused = make(map[right]bool), make(map[right]bool)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a audit
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return nil, nil, fmt.Errorf("%w in %s", err, lines.Text())
		}
		if a.ObjectRef == nil {
			continue // a path, such as that of discovery, which everybody may read
		}
		r := right{a.Verb, a.ObjectRef.Resource, a.ObjectRef.APIGroup}
		if a.ObjectRef.Subresource != "" {
			r.resource += "/" + a.ObjectRef.Subresource
		}
		used[r] = true
		if a.Verb == "patch" && a.Response.Code == http.StatusCreated {
			used[right{"create", r.resource, r.group}] = true // applying something new takes both
		}
		if a.Annotations["authorization.k8s.io/decision"] == "forbid" {
			refused[r] = true
		}
	}
	return used, refused, lines.Err()
}

func grantedRights(ctx context.Context, c client.Client) (map[right]bool, error) {
	var all rbacv1.ClusterRole
	if err := c.Get(ctx, client.ObjectKey{Name: "waypoint-controller"}, &all); err != nil {
		return nil, err
	}
	var own rbacv1.Role
	if err := c.Get(ctx, client.ObjectKey{Namespace: apiserver.SystemNamespace, Name: "waypoint-controller"}, &own); err != nil {
		return nil, err
	}
	granted := make(map[right]bool)
	for _, rule := range append(all.Rules, own.Rules...) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[right{verb, resource, group}] = true
				}
			}
		}
	}
	return granted, nil
}
