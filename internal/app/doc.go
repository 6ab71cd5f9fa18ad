// Package app puts a whole waypoint together, so that the program and the tests
// run the same thing: [New] reads as its table of contents, [App.Run] as its life.
package app
