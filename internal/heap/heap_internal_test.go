package heap

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

func TestRaise(t *testing.T) {
	before := heapGoal()
	release := Raise(func(string) string { return "" })
	if after := heapGoal(); after < before+floor {
		t.Errorf("the next collection begins at %d bytes, before the floor at %d", after, before)
	}
	used := make([]byte, floor) // as much again
	if after, most := heapGoal(), before+2*floor+floor*2*growth/100+8<<20; after > most {
		t.Errorf("with as much as the floor in use the next collection begins at %d bytes, want %d at most", after, most)
	}
	runtime.KeepAlive(used)
	release()
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		before = heapGoal()
		release = Raise(func(n string) string { return map[string]string{name: "1"}[n] })
		if after := heapGoal(); after >= before+floor {
			t.Errorf("with %s the next collection begins at %d bytes, before at %d", name, after, before)
		}
		release()
	}
}
