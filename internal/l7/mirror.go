package l7

import "github.com/waypoint-mesh/waypoint/internal/route"

func (e *exchange) addMirror(f *route.Mirror) {}
