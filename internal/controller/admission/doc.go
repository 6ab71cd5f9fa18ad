// Package admission answers the API server, before it stores an object that we
// read, whether the object can work. The checks are those of `waypoint validate` on
// one object; what is right by itself and does nothing where it stands is for the
// object's status to say.
//
// Nobody is to be hindered by it who does not mean us, or who mends something:
//
//   - only what a Gateway of ours would use is refused, all else is warned about;
//   - a fault that the stored object has already is no reason to refuse its update,
//     and neither is anything while it is being deleted, or where the specification
//     stays the same;
//   - the webhook's configuration has the API server go on without an answer
//     (failurePolicy: Ignore), and [Registrar] only ever writes its caBundle.
package admission
