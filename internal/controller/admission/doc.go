// Package admission answers the API server, before it stores an object that people
// write for waypoints, whether the object can work: Gateways, routes, policies,
// ServiceEntries and WorkloadEntries. The checks are those of `waypoint validate` on
// one object; what is right by itself and does nothing where it stands is for the
// object's status to say. Of what Kubernetes itself lives on, Services and Pods for
// two, nobody is asked.
//
// Nobody is to be hindered by it who does not mean us, or who mends something:
//
//   - only what a Gateway of ours uses is refused, all else is warned about: a
//     cluster may have waypoints of others beside ours, which may know more;
//   - a fault that the stored object has already is no reason to refuse its update,
//     and neither is anything while it is being deleted, or where the specification
//     stays the same, or where the stored object cannot even be read;
//   - an object that we cannot read is let through: the API server has found it
//     right by a definition that is newer than we are;
//   - the webhook's configuration has the API server go on without an answer
//     (failurePolicy: Ignore), and [Registrar] only ever writes its caBundle. A
//     panic of ours is such a silence.
//
// Every replica answers, with a certificate of package ca that is another one each
// day. Nothing is kept, so dry runs are answered like others.
package admission
