// Package explain tells one decision step by step: which destination, whether
// policy allows, which rule of which route, which endpoints. It decides nothing
// itself: the engines of the data path are asked, by the same snapshot and with
// the same facts, and say what they looked at.
//
// [Explain] answers a [Question]; an [Answer] is data for machines, and its Text
// is for people.
package explain
