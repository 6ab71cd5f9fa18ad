// Package feed follows the objects of the API server and keeps one
// translate.Translator for each Gateway of ours, whose changes it hands on. All
// translators share one translate.Mesh.
//
// Informers put what happens into an inbox, by object, so that of an object that
// changes faster than it is translated only the newest state is seen. One goroutine
// empties the inbox: it enters what changed into the mesh, has each translator
// compute what that touches, passes the difference to the discovery server, and
// names the objects whose status may have to be written. Nothing is translated before all
// informers have listed: a waypoint that gets half of a mesh would take the missing
// half for deleted.
//
// A kind whose CRD is not installed is left out, and joined in as soon as it is.
package feed
