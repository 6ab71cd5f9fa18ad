package feed

import "github.com/waypoint-mesh/waypoint/internal/translate"

// Fronts reports whether a Gateway of ours fronts a Service or ServiceEntry, or
// would if it were let.
func (f *Feed) Fronts(key translate.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.translators {
		if _, asks := t.ServiceStatus(key); asks {
			return true
		}
	}
	return false
}
