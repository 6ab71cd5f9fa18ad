// Package lab is a Kubernetes cluster with istiod and our controller in it, for
// tests: what test/meshlab runs, and deployments/manifests applied to it.
//
//	func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
//
//	s := lab.NewStory(t) // a namespace of its own; the first one brings up the lab
//	s.Apply(manifests)   // NS in them is the namespace
//	s.Programmed("waypoint")
//	s.Capture()          // node proxies for the pods of the namespace
//	res, err := s.HTTP("client").Get("http://cart:80/")
//
// How it is made:
//
//  1. The lab is a network namespace without a way out. [Main] makes it and runs
//     the test program again inside, so that tests reach pods and Services; when
//     that has ended, however it did, everything goes.
//  2. The controller runs as the Deployment of deployments/manifests, waypoints as
//     the Deployments that it makes, with their real arguments, rights, tokens and
//     mounts. Pods are network namespaces, see test/meshlab.
//  3. There is no ztunnel. The tests' node proxies are those of internal/meshtest,
//     which ask istiod what a ztunnel asks it ([Directory]): which Services there
//     are, where their waypoints and endpoints, and who they are. Their
//     certificates are issued by istiod's CA. What programs in pods open goes that way
//     too where a test says so ([Story.CaptureOutbound]).
//
// It takes root, the programs of `make components`, and nftables, iproute2 and
// openssl. Where something is missing, tests are skipped, and say what it is.
package lab
