// Package status says on routes and policies what became of them.
//
// What is to be said is computed by pure functions of an object and a report of the
// translators. The [Writer] writes it, on the leader alone, and only where it says
// something else than what stands there: entries of other controllers stay as they
// are, the time of a condition moves only with its state, and a write that somebody
// else overtook is done again from what they wrote.
//
// A route has an entry for each parent that a Gateway of ours fronts. A policy gets
// one condition of our own, beside those of istiod, which says in a sentence
// whether it is in force and what in it does nothing.
package status
