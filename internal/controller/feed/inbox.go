package feed

import (
	"sync"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// inbox holds what happened since it was last emptied.
type inbox struct {
	wake chan struct{} // holds one

	mu      sync.Mutex // guards pending
	pending map[translate.Key]translate.Object
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), pending: make(map[translate.Key]translate.Object)}
}

// put notes the newest state of an object; nil: it is gone.
func (i *inbox) put(key translate.Key, obj translate.Object) {
	i.mu.Lock()
	i.pending[key] = obj
	i.mu.Unlock()
	i.poke()
}

func (i *inbox) poke() {
	select {
	case i.wake <- struct{}{}:
	default: // it will be emptied anyhow
	}
}

func (i *inbox) take() map[translate.Key]translate.Object {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.pending
	i.pending = make(map[translate.Key]translate.Object)
	return taken
}
