package store

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Growth knows how large the entries of raft's log are, of which raft itself only counts the number: with layouts of a MiB in
// them it would cut its log at 16 GiB.
type Growth struct {
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

// NewGrowth returns a Growth that wants a snapshot after limit bytes, and leaves trailing bytes and most entries at most behind one.
func NewGrowth(limit, trailing int, most uint64) *Growth {
	return &Growth{limit: limit, trailing: trailing, most: most, full: make(chan struct{}, 1)}
}

// entrySize is roughly what an entry takes on disk.
func entrySize(entry *raft.Log) int { return len(entry.Data) + len(entry.Extensions) + 64 }

// Full returns the channel that says that a snapshot is due.
func (g *Growth) Full() <-chan struct{} { return g.full }

// SetKeep says how raft is told how many entries stay behind the next snapshot.
func (g *Growth) SetKeep(keep func(entries uint64)) { g.keep.Store(&keep) }

// Load looks at the log as it is found.
func (g *Growth) Load(s Stores) error {
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
		if err := s.Log.GetLog(i, &entry); errors.Is(err, raft.ErrLogNotFound) {
			continue // a store that allows gaps has one behind a snapshot of the leader's; raft looks at what lies after it
		} else if err != nil {
			return err
		}
		g.stored([]*raft.Log{&entry})
	}
	if snaps, err := s.Snapshots.List(); err == nil && len(snaps) > 0 {
		g.Covered(snaps[0].Index)
	}
	return nil
}

// stored counts entries that were appended.
func (g *Growth) stored(entries []*raft.Log) {
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
func (g *Growth) tell() {
	if g.since >= g.limit {
		select {
		case g.full <- struct{}{}:
		default:
		}
	}
}

// removed forgets entries that were cut off at either end.
func (g *Growth) removed(low, high uint64) {
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

// Size returns how many entries the log has, and roughly what they take on disk, in bytes.
func (g *Growth) Size() (entries, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.sizes {
		bytes += n
	}
	return len(g.sizes), bytes
}

// Covered counts anew what is in no snapshot, and says how many entries are to stay behind the newest one.
func (g *Growth) Covered(index uint64) {
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

// Again tells of what is still too much.
func (g *Growth) Again() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell()
}
