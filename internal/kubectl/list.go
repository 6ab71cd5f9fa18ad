package kubectl

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// Listed is a waypoint on one line.
type Listed struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Class     string `json:"class"`
	// Revision is that of the control plane that serves it.
	Revision string `json:"revision"`
	// Traffic is what it is for: service, workload, all or none.
	Traffic    string    `json:"traffic"`
	Programmed string    `json:"programmed"` // True, False or Unknown
	Pods       int       `json:"pods"`
	Ready      int       `json:"ready"`             // of the pods
	Address    string    `json:"address,omitempty"` // where clients reach it
	Created    time.Time `json:"created"`
}

// Listing is what `kubectl waypoint list` prints.
type Listing struct {
	Waypoints []Listed `json:"waypoints"`
}

// Listing lists the waypoints of a namespace, or of all if it is empty.
func (c *Cluster) Listing(ctx context.Context, namespace string) (Listing, error) {
	gateways, err := c.Waypoints(ctx, namespace)
	if err != nil {
		return Listing{}, err
	}
	classes, err := c.classes(ctx)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Waypoints: []Listed{}}
	for i := range gateways {
		g := &gateways[i]
		listed := summary(g, classes[string(g.Spec.GatewayClassName)])
		pods, err := c.Pods(ctx, g)
		if err != nil {
			return Listing{}, err
		}
		for i := range pods {
			listed.Pods++
			if ready(&pods[i]) {
				listed.Ready++
			}
		}
		l.Waypoints = append(l.Waypoints, listed)
	}
	return l, nil
}

func summary(g *gatewayv1.Gateway, class *gatewayv1.GatewayClass) Listed {
	l := Listed{
		Namespace: g.Namespace, Name: g.Name, Class: string(g.Spec.GatewayClassName), Revision: "default",
		Traffic: servesWhat(g, class), Programmed: "Unknown", Created: g.CreationTimestamp.Time,
	}
	if revision := g.Labels[labelRevision]; revision != "" {
		l.Revision = revision
	}
	if p := meta.FindStatusCondition(g.Status.Conditions, string(gatewayv1.GatewayConditionProgrammed)); p != nil {
		l.Programmed = string(p.Status)
	}
	if len(g.Status.Addresses) > 0 {
		l.Address = g.Status.Addresses[0].Value
	}
	return l
}

// WriteText writes a table.
func (l Listing) WriteText(w io.Writer) error {
	if len(l.Waypoints) == 0 {
		_, err := fmt.Fprintln(w, "No waypoints found; 'kubectl waypoint list -A' looks in all namespaces.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tNAME\tREVISION\tTRAFFIC TYPE\tPROGRAMMED\tREADY\tADDRESS\tAGE")
	for _, p := range l.Waypoints {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\n", p.Namespace, p.Name, p.Revision, p.Traffic, p.Programmed, p.Ready, p.Pods, orDash(p.Address),
			duration.HumanDuration(time.Since(p.Created)))
	}
	return t.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// YAML is a value as YAML, by the names that its fields have in JSON.
func YAML(value any) ([]byte, error) { return yaml.Marshal(value) }
