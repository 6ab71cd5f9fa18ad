//go:build !linux

package app

import "runtime/debug"

// trim gives back the garbage of the first configuration.
func trim() error {
	debug.FreeOSMemory()
	return nil
}
