package daemon

import "runtime"

// heapFloor is how many bytes of heap count as used in any case. A node keeps little, so by Go's rule, as much again, it would
// collect every few megabytes: many times in a second of small rounds, which costs more than the collections themselves,
// since stacks shrink in each and grow again. Memory grows by so much at most.
const heapFloor = 16 << 20

// raiseHeap keeps the floor until the returned function is called. Who limits memory by Go's own variables knows better.
func raiseHeap(getenv func(string) string) (release func()) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	floor := make([]byte, heapFloor) // never written, so no memory stands behind it
	return func() { runtime.KeepAlive(floor) }
}
