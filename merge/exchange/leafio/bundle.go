package leafio

import (
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// Small leaves travel in bundles: some of them are one write, which costs a system call, a turn and an encryption however little it
// carries. Leaves as large as wire.WriteSize travel alone. A bundle is a part of a shard, or of a task, by the index of its leaves, so
// that who merges and who gives have the same bundles without a word.

// PerBundle is how many leaves are at most in a bundle.
func PerBundle(l *merge.Layout) int { return max(1, wire.WriteSize/l.LeafSize()) }
