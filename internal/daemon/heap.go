package daemon

import (
	"runtime"
	"runtime/debug"
)

const (
	// heapFloor is how many bytes of heap count as used in any case. A node keeps little, so by Go's rule, as much again, it would
	// collect every few megabytes: many times in a second of small rounds, which costs more than the collections themselves,
	// since stacks shrink in each and grow again.
	heapFloor = 88 << 20
	// heapGrowth is by how much of what is used, floor included, in percent, the heap grows before it is collected: 22 MiB where
	// little is used, and not twice the buffers, which cost a collection nothing, where a model comes from a hundred peers.
	heapGrowth = 25
)

// raiseHeap keeps both until the returned function is called. Who limits memory by Go's own variables knows better.
func raiseHeap(getenv func(string) string) (release func()) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	floor := make([]byte, heapFloor) // never written, so no memory stands behind it
	before := debug.SetGCPercent(heapGrowth)
	return func() {
		debug.SetGCPercent(before)
		runtime.KeepAlive(floor)
	}
}
