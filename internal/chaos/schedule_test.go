package chaos_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/chaos"
)

var shape = chaos.Shape{SNs: 3, SLs: 6, Kinds: chaos.Kinds()}

// TestScheduleIsAFunctionOfTheSeed holds one wave to what it was when this was written, and draws waves in any order.
func TestScheduleIsAFunctionOfTheSeed(t *testing.T) {
	fixed := chaos.Shape{SNs: 3, SLs: 6, Kinds: []chaos.Kind{"link-sl-sl", "sl-kill", "sn-stop"}}
	want := []chaos.Fault{
		{Kind: "sn-stop", Node: "sn-3", At: 836909448, For: 5130891802, Draw: 0x6448e4ababbfa256},
		{Kind: "sl-kill", Node: "sl-4", At: 2177219981, For: 96276882, Draw: 0x15e2ffbe3b962df4},
	}
	if diff := cmp.Diff(want, chaos.WaveOf(7, 3, fixed)); diff != "" {
		t.Errorf("wave 3 of seed 7 (-want +got):\n%s", diff)
	}
	later := chaos.WaveOf(42, 9, shape)
	chaos.WaveOf(42, 1, shape)
	if diff := cmp.Diff(later, chaos.WaveOf(42, 9, shape)); diff != "" {
		t.Errorf("a wave depends on what was drawn before:\n%s", diff)
	}
	if cmp.Equal(chaos.WaveOf(42, 9, shape), chaos.WaveOf(43, 9, shape)) || cmp.Equal(chaos.WaveOf(42, 9, shape), chaos.WaveOf(42, 10, shape)) {
		t.Error("another seed or number makes the same wave")
	}
}

// TestWavesLeaveAMajorityOfSNs: two of three SNs that lose their disks at once are a swarm that is lost.
func TestWavesLeaveAMajorityOfSNs(t *testing.T) {
	shape := chaos.Shape{SNs: 3, SLs: 3, Kinds: []chaos.Kind{"sn-wipe", "sn-away-long", "sn-stop-long", "sn-kill"}}
	wipes := 0
	for number := range 500 {
		here, long := 0, 0
		for _, f := range chaos.WaveOf(12, number, shape) {
			switch f.Kind {
			case "sn-wipe":
				here++
			case "sn-away-long", "sn-stop-long":
				long++
			}
		}
		if wipes += here; here > 1 || here == 1 && long > 0 {
			t.Errorf("wave %d takes the disks of %d SNs, and %d more are away for long", number, here, long)
		}
	}
	if wipes < 100 {
		t.Errorf("%d disks were taken in 500 waves", wipes)
	}
}

func TestWavesHitEachNodeOnceAndHaveAllKinds(t *testing.T) {
	seen, most := map[chaos.Kind]bool{}, 0
	for number := range 2000 { // some kinds are rare
		faults := chaos.WaveOf(5, number, shape)
		if len(faults) == 0 {
			t.Errorf("wave %d has no fault", number)
		}
		most = max(most, len(faults))
		hit, last := map[string]bool{}, time.Duration(0)
		for _, f := range faults {
			seen[f.Kind] = true
			if f.At < last {
				t.Errorf("wave %d: %s comes after a later one", number, f)
			}
			last = f.At
			for _, node := range []string{f.Node, f.Peer} {
				if node != "" && hit[node] {
					t.Errorf("wave %d hits %s twice", number, node)
				}
				hit[node] = true
			}
		}
	}
	if most != 4 || len(seen) != len(shape.Kinds) {
		t.Errorf("%d faults at once at most and %d of %d kinds, want 4 and all", most, len(seen), len(shape.Kinds))
	}
}

// TestKnownFaultsAreLeftOut wants the list in one place to be what decides.
func TestKnownFaultsAreLeftOut(t *testing.T) {
	if len(chaos.Kinds()) < 22 {
		t.Errorf("%d kinds of faults, want 22 at least", len(chaos.Kinds()))
	}
	for _, known := range chaos.Known() {
		for _, k := range chaos.Kinds() {
			if k == known {
				t.Errorf("%s is tried though it is known not to work", k)
			}
		}
	}
}
