package consensus

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// growth knows how large the entries of raft's log are, of which raft itself only counts the number: with layouts of a MiB in
// them it would cut its log at 16 GiB.
type growth struct {
	limit, trailing int // bytes between snapshots, and of entries that stay behind one
	most            uint64
	full            chan struct{} // capacity 1: a snapshot is due
	// keep tells raft how many entries stay behind the next snapshot. Raft takes none before it is set.
	keep atomic.Pointer[func(entries uint64)]

	mu    sync.Mutex
	first uint64 // index of the first of sizes
	sizes []int  // of the log's entries
	since int    // bytes that are in no snapshot
}

func newGrowth(t Timing) *growth {
	return &growth{limit: t.SnapshotBytes, trailing: t.TrailingBytes, most: t.Trailing, full: make(chan struct{}, 1)}
}

// entrySize is roughly what an entry takes on disk.
func entrySize(entry *raft.Log) int { return len(entry.Data) + len(entry.Extensions) + 64 }

// load looks at the log as it is found.
func (g *growth) load(s Stores) error {
	first, err := s.Log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return err
	}
	for i := first; first > 0 && i <= last; i++ {
		var entry raft.Log
		if err := s.Log.GetLog(i, &entry); err != nil {
			return err
		}
		g.stored([]*raft.Log{&entry})
	}
	if snaps, err := s.Snapshots.List(); err == nil && len(snaps) > 0 {
		g.covered(snaps[0].Index)
	}
	return nil
}

// stored counts entries that were appended.
func (g *growth) stored(entries []*raft.Log) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range entries {
		if len(g.sizes) == 0 || e.Index != g.first+uint64(len(g.sizes)) { // a log that begins anew behind a snapshot
			g.first, g.sizes = e.Index, nil
		}
		n := entrySize(e)
		g.sizes = append(g.sizes, n)
		g.since += n
	}
	g.tell()
}

// tell says that a snapshot is due. Called with mu held.
func (g *growth) tell() {
	if g.since >= g.limit {
		select {
		case g.full <- struct{}{}:
		default:
		}
	}
}

// removed forgets entries that were cut off at either end.
func (g *growth) removed(low, high uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	end := g.first + uint64(len(g.sizes))
	switch {
	case low <= g.first && high >= g.first:
		g.sizes = append([]int(nil), g.sizes[min(high+1, end)-g.first:]...)
		g.first = high + 1
	case low > g.first && low < end: // a leader has other entries there
		for _, n := range g.sizes[low-g.first:] {
			g.since = max(0, g.since-n)
		}
		g.sizes = g.sizes[:low-g.first]
	}
}

// covered counts anew what is in no snapshot, and says how many entries are to stay behind the newest one.
func (g *growth) covered(index uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since = 0
	entries, kept := uint64(0), 0
	for i := len(g.sizes) - 1; i >= 0; i-- {
		if g.first+uint64(i) > index {
			g.since += g.sizes[i]
		}
		if kept += g.sizes[i]; kept <= g.trailing && entries < g.most {
			entries++
		}
	}
	if keep := g.keep.Load(); keep != nil {
		(*keep)(max(1, entries))
	}
}

// growthPause is how long a snapshot that failed is left alone.
const growthPause = 10 * time.Second

// growthLoop has raft cut its log when it has grown by so many bytes.
func (g *Group) growthLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.growth.full:
		}
		err := g.await(ctx, func() error { return g.raft.Snapshot().Error() })
		if err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot) || ctx.Err() != nil {
			continue
		}
		g.log.Warn("could not cut the raft log", "err", err)
		timer := time.NewTimer(growthPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		g.growth.again()
	}
}

// again tells of what is still too much.
func (g *growth) again() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell()
}
