package main

import (
	"context"
	"path/filepath"
)

// keep starts the waypoint again, which the last step has ended, says what there
// is to try, and waits for Ctrl-C.
func keep(ctx context.Context, w *world, s *show, asExpected bool) error {
	if err := w.startWaypoint(ctx); err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(w.clientDir, name) }
	s.printf(`
The mesh is up, the waypoint started again. Enter it as spiffe://cluster.local/ns/default/sa/client:

  %s tunnel --waypoint %s --cert %s \
    --key %s --root %s \
    --forward 127.0.0.1:8080=%s --socks5 127.0.0.1:1080

and in another terminal:

  curl -i http://127.0.0.1:8080/                     # 90 %% reviews-v1
  curl -i -H 'x-canary: 1' http://127.0.0.1:8080/    # reviews-v2
  curl -i -X POST http://127.0.0.1:8080/             # 403: the policy allows GET
  curl -i --proxy socks5h://127.0.0.1:1080 http://ratings.default.svc.cluster.local:8080/

Edit the manifests in %s, and see what becomes of it:

  http://%s/            what there is to look at: the snapshot in force, a live view, profiles
  http://%s/metrics     the metrics
  %s explain --admin http://%s --from %s --to %s GET /

Ctrl-C ends all of it.
`, w.command[0], hboneAddr, file("cert.pem"), file("key.pem"), file("ca.pem"), reviewsVIP,
		w.manifests, adminAddr, metricsAddr, w.command[0], adminAddr, clientID, reviewsVIP)
	<-ctx.Done()
	s.printf("\nending\n")
	return verdict(asExpected)
}
