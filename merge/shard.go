package merge

import (
	"errors"
	"fmt"
	"slices"
)

// ErrShards is wrapped by errors about shards that do not tile the vector.
var ErrShards = errors.New("shards do not tile the vector")

// Shard is a contiguous run of leaves that one participant owns. A shard of no
// leaves is that of a participant that owns nothing.
type Shard struct {
	First  int // index of the first leaf
	Leaves int // number of leaves
}

// End returns the index after the last leaf.
func (s Shard) End() int { return s.First + s.Leaves }

// CheckShards verifies that the shards cover every leaf exactly once. Their
// order is free, sizes may differ, and empty ones may stand anywhere in range.
func CheckShards(leaves int, shards []Shard) error {
	sorted := make([]Shard, 0, len(shards))
	for i, s := range shards {
		// Compare without adding first: hostile values must not overflow.
		if s.First < 0 || s.Leaves < 0 || s.First > leaves || s.Leaves > leaves-s.First {
			return fmt.Errorf("%w: shard %d has leaves %d+%d of %d", ErrShards, i, s.First, s.Leaves, leaves)
		}
		if s.Leaves > 0 {
			sorted = append(sorted, s)
		}
	}
	slices.SortFunc(sorted, func(a, b Shard) int { return a.First - b.First })
	next := 0
	for _, s := range sorted {
		if s.First != next {
			return fmt.Errorf("%w: leaf %d is owned by none or by two", ErrShards, min(next, s.First))
		}
		next = s.End()
	}
	if next != leaves {
		return fmt.Errorf("%w: leaf %d has no owner", ErrShards, next)
	}
	return nil
}
