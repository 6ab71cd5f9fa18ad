// Package status says on routes, policies and services what became of them.
//
// What is to be said is computed by pure functions of an object and a report of the
// translators. The [Writer] writes it, on the leader alone, and only where it says
// something else than what stands there: entries of other controllers stay as they
// are, the time of a condition moves only with its state, and a write that somebody
// else overtook is done again from what they wrote.
//
// A route has an entry for each parent that asks for a waypoint of ours, also where
// it does not get it and calls go around. A policy gets one condition of our own,
// beside those of istiod, which says in a sentence where it is in force, where it is
// not and why, how clients get around it, and what in it does nothing. Where there is
// no istiod we say as well which Services have the waypoint that they ask for, and of
// routes that their parents have none.
package status
