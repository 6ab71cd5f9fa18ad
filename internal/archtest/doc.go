// Package archtest holds the architecture to what docs/architecture.md says of
// it, as tests:
//
//  1. arrows: which package of ours may import which other, see rules_test.go.
//     The same table is printed in docs/architecture.md; `make docs` writes it.
//  2. modules: which package may import which module that is not ours.
//  3. links: what a binary must not contain, however it came in.
//  4. Every package has a comment that tells its mechanism, and no file or
//     function outgrows what can be read in one go.
//
// Tests of a package may import what they like: they look at it from outside,
// mostly through internal/meshtest, and are linked into nothing.
//
// The go command caches test results without knowing that these tests read the
// whole tree, so they are to be run with -count=1, as `make arch` does.
package archtest
