package kubectl

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Deletion says which waypoints of the cluster's namespace are to go: those named,
// or all, or all of a revision.
type Deletion struct {
	Names    []string
	All      bool
	Revision string

	Out io.Writer // what was deleted
	Err io.Writer // what still asks for it
}

// Delete deletes waypoints; what the controller has made of them goes with them.
// Gateways of other classes are not touched.
func (c *Cluster) Delete(ctx context.Context, d Deletion) error {
	doomed, err := c.doomed(ctx, d)
	if err != nil {
		return err
	}
	for i := range doomed {
		g := &doomed[i]
		if err := c.Client.Delete(ctx, g, client.Preconditions{UID: &g.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
		fmt.Fprintf(d.Out, "waypoint %s/%s deleted\n", g.Namespace, g.Name)
		if err := c.stillAsked(ctx, g, d.Err); err != nil {
			return err
		}
	}
	if len(doomed) == 0 {
		fmt.Fprintf(d.Err, "No waypoints found in namespace %s.\n", c.Namespace)
	}
	return nil
}

// doomed finds all that is to go before the first goes.
func (c *Cluster) doomed(ctx context.Context, d Deletion) ([]gatewayv1.Gateway, error) {
	var list []gatewayv1.Gateway
	if !d.All && d.Revision == "" {
		for _, name := range d.Names {
			g, err := c.Waypoint(ctx, name)
			if err != nil {
				return nil, fmt.Errorf("nothing was deleted: %w", err)
			}
			list = append(list, *g)
		}
		return list, nil
	}
	all, err := c.Waypoints(ctx, c.Namespace)
	for _, g := range all {
		if d.Revision == "" || g.Labels[labelRevision] == d.Revision {
			list = append(list, g)
		}
	}
	return list, err
}

// stillAsked tells of labels that name a waypoint which is gone: its services have
// no waypoint then, and its policies are enforced by nobody.
func (c *Cluster) stillAsked(ctx context.Context, g *gatewayv1.Gateway, w io.Writer) error {
	name := g.Namespace + "/" + g.Name
	var namespaces corev1.NamespaceList
	if err := c.List(ctx, &namespaces, client.MatchingLabels{labelUse: g.Name}); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	for i := range namespaces.Items {
		if ns := &namespaces.Items[i]; waypointOf(ns) == name {
			fmt.Fprintf(w, "Namespace %s still asks for it, in vain: 'kubectl label namespace %[1]s %s-'\n", ns.Name, labelUse)
		}
	}
	var services corev1.ServiceList
	if err := c.List(ctx, &services, client.MatchingLabels{labelUse: g.Name}); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	for i := range services.Items {
		if s := &services.Items[i]; waypointOf(s) == name {
			fmt.Fprintf(w, "Service %s/%s still asks for it, in vain: 'kubectl label service %[2]s -n %[1]s %s-'\n", s.Namespace, s.Name, labelUse)
		}
	}
	return nil
}
