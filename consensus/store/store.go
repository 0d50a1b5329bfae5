// Package store keeps raft's log, vote and snapshots on disk, knows how large the log has grown, and reports a store that fails or
// hangs.
package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"

	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/segments"
	"github.com/swarmd/swarmd/consensus/watchdog"
	"github.com/swarmd/swarmd/internal/filelock"
)

// retainSnapshots bounds the snapshots on disk: the newest and one before it, in case the newest does not read.
const retainSnapshots = 2

// memberFile marks a directory whose node has been part of a swarm.
const memberFile = "member"

// Stores hold raft's log, its term and vote, and its snapshots. Tests give stores in memory; whoever gives stores
// closes them, after Run has returned. When it has because a write hung, that is still under way.
type Stores struct {
	Log       raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	// Ledger holds the audit log; nil: in memory, or in the group's directory if it has one.
	Ledger ledgerfile.Store
}

// Open opens or makes the stores in dir, without a ledger. The caller closes what it returns.
func Open(dir string, log *slog.Logger) (Stores, Closers, error) {
	walDir := filepath.Join(dir, "log")
	if err := os.MkdirAll(walDir, 0o700); err != nil {
		return Stores{}, nil, fmt.Errorf("make raft directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return Stores{}, nil, err
	}
	// The log's own Close leaves its meta store open, so we bring one and close it ourselves.
	meta := &metadb.BoltMetaDB{}
	w, err := wal.Open(walDir, wal.WithLogger(raftnet.NewLog(log, "wal")), wal.WithMetaStore(meta), wal.WithSegmentFiler(segments.New(walDir)))
	if err != nil {
		err = fmt.Errorf("open raft log in %s: %w: restore the directory from a backup, or move it away and start again to rejoin as an empty server", walDir, err)
		return Stores{}, nil, errors.Join(err, meta.Close(), lock.Close())
	}
	all := Closers{w, meta, lock}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, retainSnapshots, raftnet.NewLog(log, "snapshot"))
	if err != nil {
		return Stores{}, nil, errors.Join(fmt.Errorf("open snapshots in %s: %w", dir, err), all.Close())
	}
	return Stores{Log: w, Stable: w, Snapshots: snaps}, all, nil
}

// lockDir makes sure that no other process uses dir: the log's own lock would wait for it in silence.
func lockDir(dir string) (*filelock.Lock, error) {
	lock, err := filelock.Take(filepath.Join(dir, "lock"))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("raft directory %s is in use by another process: stop that one or choose another --state-dir", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock raft directory: %w", err)
	}
	return lock, nil
}

// Closers closes its parts in order.
type Closers []io.Closer

// Close closes all parts, whatever the first ones say.
func (c Closers) Close() error {
	var err error
	for _, part := range c {
		err = errors.Join(err, part.Close())
	}
	return err
}

// CheckMember refuses stores that have lost what they held: a server that forgets its vote can elect two leaders. It
// marks the directory of a server that holds something.
func CheckMember(dir string, s Stores) error {
	term, err := s.Stable.GetUint64([]byte(KeyTerm))
	if err != nil && err.Error() != "not found" {
		return fmt.Errorf("read raft term: %w", err)
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return fmt.Errorf("read raft log: %w", err)
	}
	snaps, err := s.Snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	if len(snaps) > 0 && term == 0 {
		return fmt.Errorf("open raft state in %s: snapshots are there but the log is not: restore it from a backup, or move the directory away to rejoin as an empty server", dir)
	}
	if last > 0 || len(snaps) > 0 {
		return MarkMember(dir)
	}
	if dir == "" {
		return nil
	}
	_, err = os.Stat(filepath.Join(dir, memberFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for raft state: %w", err)
	}
	return fmt.Errorf("open raft state in %s: this node was a member but its log is empty: restore it from a backup, or move the directory away to rejoin as an empty server", dir)
}

// MarkMember notes in dir that this node holds state of a swarm.
func MarkMember(dir string) error {
	if dir == "" {
		return nil
	}
	name := filepath.Join(dir, memberFile)
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	if err := os.WriteFile(name, []byte("this node holds raft state; see consensus/DESIGN.md\n"), 0o600); err != nil {
		return fmt.Errorf("mark raft directory: %w", err)
	}
	return nil
}

// Guard stands between raft and its stores. Raft answers a store that fails with endless retries or a panic; here
// the first failure is reported, which stops the group, and where raft would panic its goroutine ends instead. So is a
// store that does not return.
type Guard struct {
	Stores
	Fail   func(error)
	Disk   *watchdog.Watchdog
	Term   *atomic.Uint64 // is set to raft's whenever that is stored
	Growth *Growth
}

// KeyTerm is under what raft stores its term.
const KeyTerm = "CurrentTerm"

var (
	_ raft.LogStore          = (*Guard)(nil)
	_ raft.MonotonicLogStore = (*Guard)(nil)
	_ raft.StableStore       = (*Guard)(nil)
)

// exit reports a failure after which raft would panic, and ends the calling goroutine of raft's.
func (g *Guard) exit(err error) {
	g.Fail(err)
	runtime.Goexit()
}

// IsMonotonic tells raft whether the log store allows gaps.
func (g *Guard) IsMonotonic() bool {
	m, ok := g.Log.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// FirstIndex returns the oldest index held.
func (g *Guard) FirstIndex() (uint64, error) { return g.Log.FirstIndex() }

// LastIndex returns the newest index held.
func (g *Guard) LastIndex() (uint64, error) { return g.Log.LastIndex() }

// GetLog reads an entry; one that is there but does not read ends the group.
func (g *Guard) GetLog(index uint64, log *raft.Log) error {
	err := g.Log.GetLog(index, log)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		g.exit(fmt.Errorf("read raft log entry %d: %w", index, err))
	}
	return err
}

// StoreLog appends one entry.
func (g *Guard) StoreLog(log *raft.Log) error { return g.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends entries; a failure (a full disk) ends the group.
func (g *Guard) StoreLogs(logs []*raft.Log) error {
	done := g.Disk.During("writing the raft log")
	err := g.Log.StoreLogs(logs)
	done()
	if err != nil {
		g.Fail(fmt.Errorf("write raft log: %w", err))
	} else {
		g.Growth.stored(logs)
	}
	return err
}

// DeleteRange removes entries.
func (g *Guard) DeleteRange(low, high uint64) error {
	done := g.Disk.During("cutting the raft log")
	err := g.Log.DeleteRange(low, high)
	done()
	if err != nil {
		g.Fail(fmt.Errorf("cut raft log: %w", err))
	} else {
		g.Growth.removed(low, high)
	}
	return err
}

// Set stores a value such as the vote.
func (g *Guard) Set(key, value []byte) error {
	done := g.Disk.During("writing the raft vote")
	err := g.Stable.Set(key, value)
	done()
	if err != nil {
		g.Fail(fmt.Errorf("write raft vote: %w", err))
	}
	return err
}

// Get reads a value.
func (g *Guard) Get(key []byte) ([]byte, error) { return g.Stable.Get(key) }

// SetUint64 stores a number such as the term.
func (g *Guard) SetUint64(key []byte, value uint64) error {
	done := g.Disk.During("writing the raft term")
	err := g.Stable.SetUint64(key, value)
	done()
	if err != nil {
		g.exit(fmt.Errorf("write raft term: %w", err))
	}
	if string(key) == KeyTerm {
		g.Term.Store(value)
	}
	return nil
}

// GetUint64 reads a number.
func (g *Guard) GetUint64(key []byte) (uint64, error) { return g.Stable.GetUint64(key) }
