package daemon

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// heapGoal is the heap at which the next collection begins, in bytes.
func heapGoal() uint64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func TestHeapFloor(t *testing.T) {
	before := heapGoal()
	release := raiseHeap(func(string) string { return "" })
	if after := heapGoal(); after < before+heapFloor {
		t.Errorf("the next collection begins at %d bytes, before the floor at %d", after, before)
	}
	release()
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		before = heapGoal()
		release = raiseHeap(func(n string) string { return map[string]string{name: "1"}[n] })
		if after := heapGoal(); after >= before+heapFloor {
			t.Errorf("with %s the next collection begins at %d bytes, before at %d", name, after, before)
		}
		release()
	}
}
