package main

import "path/filepath"

// kept says where everything is that --keep leaves up.
type kept struct {
	Waypoint  string `json:"waypoint"`
	Admin     string `json:"admin"`
	Metrics   string `json:"metrics"`
	Manifests string `json:"manifests"` // folder; an edit there is in force at once
	Cert      string `json:"cert"`      // of the client, for `waypoint tunnel`
	Key       string `json:"key"`
	Root      string `json:"root"`
}

func newKept(w *world) *kept {
	return &kept{
		Waypoint:  hboneAddr,
		Admin:     "http://" + adminAddr,
		Metrics:   "http://" + metricsAddr + "/metrics",
		Manifests: w.manifests,
		Cert:      filepath.Join(w.clientDir, "cert.pem"),
		Key:       filepath.Join(w.clientDir, "key.pem"),
		Root:      filepath.Join(w.clientDir, "ca.pem"),
	}
}

// invite says what there is to try.
func (s *show) invite(program string, k *kept) {
	s.printf(`
The mesh is up, the waypoint started again. A way into it, as %s:

  %s tunnel --waypoint %s --socks5 127.0.0.1:1080 \
    --cert %s --key %s --root %s

and in another terminal:

  export ALL_PROXY=socks5h://127.0.0.1:1080 NO_PROXY=127.66.0.1
  curl -i http://reviews.default.svc.cluster.local:8080/                      9 of 10 times reviews-v1
  curl -i -H 'x-canary: 1' http://reviews.default.svc.cluster.local:8080/     reviews-v2
  curl -i -X POST http://reviews.default.svc.cluster.local:8080/              403: its policy allows GET
  curl -i http://ratings.default.svc.cluster.local:8080/                      200, though an endpoint is dead

An edit of the manifests is in force at once. Change weights, or add an example:

  $EDITOR %s/route-http.yaml
  cp examples/features/policy-deny.yaml %s/
  curl -i http://policy-deny.default.svc.cluster.local:8080/admin/users       403

What the waypoint says of itself, and of a request that nobody has sent:

  %s/
  %s
  %s explain --admin %s --from %s --to %s GET /

Ctrl-C ends all of it.
`, clientID, program, k.Waypoint, k.Cert, k.Key, k.Root, k.Manifests, k.Manifests,
		k.Admin, k.Metrics, program, k.Admin, clientID, reviewsVIP)
}
