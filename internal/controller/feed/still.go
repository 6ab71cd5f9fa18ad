package feed

import "github.com/waypoint-mesh/waypoint/internal/translate"

// Of is a feed of objects that stay as they are: its reports are those of a
// controller that sees these objects. It is not to be run.
func Of(o Options, objects []translate.Object) *Feed {
	f := New(o)
	batch := make(map[translate.Key]translate.Object, len(objects))
	for _, obj := range objects {
		batch[translate.KeyOf(obj)] = obj
	}
	f.turn(batch)
	close(f.synced)
	return f
}
