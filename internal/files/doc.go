// Package files makes a folder of Kubernetes manifests, or one file of them, the
// source of configuration, and follows every change to it.
//
// One goroutine does all of it, in steps:
//
//  1. Something happens in a watched directory. After a few milliseconds, in
//     which more of the same is awaited, the whole tree is looked at: which files
//     there are and which differ from the last time. What an event said is not
//     relied on: events get lost, and kubelet swaps a whole folder by one link.
//  2. A file that changed is cut into documents at its separators, and a
//     document whose text was there before keeps what it was decoded to. So one
//     edit among 5,000 documents costs reading and hashing, not decoding.
//  3. Each object is taken from the alphabetically first file that has it.
//     Objects that changed go through translate and compile to the
//     [mesh.Builder], which publishes one snapshot.
//
// # What is half written
//
// Without a lock one may find a file empty, cut short, or gone for a moment while
// an editor replaces it, and a policy that goes missing opens what it closed. So
// new and changed objects count at once, but objects that went missing count as
// removed only when the file has been as it is for a while (see grace), and an
// empty file never removes any.
package files
