// Package charts holds the Helm chart of deployments/chart to what can be said of
// it without a cluster: it passes helm lint, renders to what the golden files say,
// refuses values that are wrong, and the plain manifests of deployments/manifests
// are what it renders to.
//
// `make charts` runs it with the helm of tools/go.mod; HELM is that program, and
// without it the tests are skipped. What the objects do is test/e2e's.
package charts
