// Package compile turns the resources of api/ into the parts that mesh.Builder
// joins: one file per type of resource, pure, each resource alone.
//
// Compilation fails closed. What is wrong with a rule makes that rule answer 500,
// what is wrong with a route's matches makes the whole route do so, and what is
// wrong with a policy denies. So [Part] always has a part to give, beside the
// error; sources that have an earlier version of the resource keep that instead.
package compile
