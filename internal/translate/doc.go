// Package translate turns Kubernetes, Gateway API and Istio objects into the resources of api/, and says what is wrong with
// them. It is pure: no clock, no files, no network; the same objects in any order give the same resources.
//
// Two steps. Validation (validate*.go) looks at one object alone and refuses what an API server would have refused, since
// files reach us without one. Translation looks at the objects together and is incremental by recorded reads: every output
// (a service, a workload, a route, a policy) is a unit whose function reads objects only through a view, which writes down
// the facts it looked up; an object is filed under the facts it is found by. When an object changes, exactly the units that
// looked under one of its facts, before or after the change, are computed again. Nobody keeps dependency lists by hand, so
// none can be forgotten.
//
// The translators of several gateways share one Mesh of objects and facts, and each has its own units. A unit costs its
// gateway about 500 bytes, reads included; what it gave is remembered by a sum, not as a message.
//
// What is refused fails closed: the last good version of an object stays; without one, a policy denies everything on its
// targets and a route answers 500 on its parents.
package translate
