package nodetest

import (
	"maps"
	"slices"
	"sync"
)

// Carried names one leaf that a merge stream brought from one node to another: what From contributes to a leaf that To
// owns, or the merged leaf that From owns.
type Carried struct {
	From, To string
	Leaf     uint32
}

// contribution is what one SL hands in with one Sync, or at its close.
type contribution struct {
	run *Run
	seq uint64 // 0: at the close
}

// Traffic is what merge streams have carried.
type Traffic struct {
	offered func(name string) contribution // what an SL sends now

	mu      sync.Mutex                 // guards what follows
	carried map[uint64]map[Carried]int // by round
	bytes   map[uint64]uint64
	owners  map[contribution]map[uint32][]string // by leaf: to whom it came whole
}

func newTraffic(offered func(name string) contribution) *Traffic {
	return &Traffic{
		offered: offered, carried: map[uint64]map[Carried]int{}, bytes: map[uint64]uint64{}, owners: map[contribution]map[uint32][]string{},
	}
}

// Carried returns how often each leaf of a contract's round has come whole through merge streams, and all bytes that came
// through the streams of the round, framing included. Leaves count for the round whose Hello came last on their stream.
func (t *Traffic) Carried(round uint64) (map[Carried]int, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.carried[round]), t.bytes[round]
}

// comes notes that a leaf of a contribution is with an owner.
func (t *Traffic) comes(c contribution, leaf uint32, owner string) {
	if t.owners[c] == nil {
		t.owners[c] = map[uint32][]string{}
	}
	if had := t.owners[c][leaf]; !slices.Contains(had, owner) {
		t.owners[c][leaf] = append(had, owner)
	}
}

// Seen returns how many leaves of the contribution of which it got most an SL got whole from others in all attempts, and the
// largest number of owners that one leaf of any contribution went to.
func (t *Traffic) Seen(name string) (most, owners int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, leaves := range t.owners {
		mine := 0
		for _, to := range leaves {
			owners = max(owners, len(to))
			if slices.Contains(to, name) {
				mine++
			}
		}
		most = max(most, mine)
	}
	return most, owners
}
