// Package heap sets when a node collects its garbage.
package heap

import (
	"runtime"
	"runtime/debug"
)

const (
	// floor is how many bytes of heap count as used in any case. A node keeps little, so by Go's rule, as much again, it would
	// collect every few megabytes: many times in a second of small rounds, which costs more than the collections themselves,
	// since stacks shrink in each and grow again.
	floor = 88 << 20
	// growth is by how much of what is used, floor included, in percent, the heap grows before it is collected: 22 MiB where
	// little is used, and not twice the buffers, which cost a collection nothing, where a model comes from a hundred peers.
	growth = 25
)

// Raise has the heap collected by floor and growth until the returned function is called. Who limits memory by Go's own variables knows better.
func Raise(getenv func(string) string) (release func()) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	ballast := make([]byte, floor) // never written, so no memory stands behind it
	before := debug.SetGCPercent(growth)
	return func() {
		debug.SetGCPercent(before)
		runtime.KeepAlive(ballast)
	}
}
