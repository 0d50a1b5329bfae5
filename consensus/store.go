package consensus

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// retainSnapshots bounds the snapshots on disk: the newest and one before it, in case the newest does not read.
const retainSnapshots = 2

// memberFile marks a directory whose node has been part of a swarm.
const memberFile = "member"

// Stores hold raft's log, its term and vote, and its snapshots. Tests give stores in memory; whoever gives stores
// closes them, after Run has returned.
type Stores struct {
	Log       raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
}

// openStores opens or makes the stores in dir. The returned closer closes them.
func openStores(dir string, log *slog.Logger) (Stores, io.Closer, error) {
	walDir := filepath.Join(dir, "log")
	if err := os.MkdirAll(walDir, 0o700); err != nil {
		return Stores{}, nil, fmt.Errorf("make raft directory: %w", err)
	}
	w, err := wal.Open(walDir, wal.WithLogger(newHCLog(log, "wal")))
	if err != nil {
		return Stores{}, nil, fmt.Errorf("open raft log in %s: %w: restore the directory from a backup, or move it away and start again to rejoin as an empty server", walDir, err)
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, retainSnapshots, newHCLog(log, "snapshot"))
	if err != nil {
		return Stores{}, nil, errors.Join(fmt.Errorf("open snapshots in %s: %w", dir, err), w.Close())
	}
	return Stores{Log: w, Stable: w, Snapshots: snaps}, w, nil
}

// checkMember refuses stores that have lost what they held: a server that forgets its vote can elect two leaders.
func checkMember(dir string, s Stores, hasState bool) error {
	term, err := s.Stable.GetUint64([]byte("CurrentTerm"))
	if err != nil && err.Error() != "not found" {
		return fmt.Errorf("read raft term: %w", err)
	}
	if hasState && term == 0 {
		return fmt.Errorf("open raft state in %s: snapshots are there but the log is not: restore it from a backup, or move the directory away to rejoin as an empty server", dir)
	}
	if dir == "" || hasState {
		return nil
	}
	_, err = os.Stat(filepath.Join(dir, memberFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for raft state: %w", err)
	}
	return fmt.Errorf("open raft state in %s: this node was a member but its log is empty: restore it from a backup, or move the directory away to rejoin as an empty server", dir)
}

// markMember notes in dir that this node holds state of a swarm.
func markMember(dir string) error {
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

// guard stands between raft and its stores. Raft answers a store that fails with endless retries or a panic; here
// the first failure is reported, which stops the group, and where raft would panic its goroutine ends instead.
type guard struct {
	Stores
	fail func(error)
}

var (
	_ raft.LogStore          = (*guard)(nil)
	_ raft.MonotonicLogStore = (*guard)(nil)
	_ raft.StableStore       = (*guard)(nil)
)

// exit reports a failure after which raft would panic, and ends the calling goroutine of raft's.
func (g *guard) exit(err error) {
	g.fail(err)
	runtime.Goexit()
}

// IsMonotonic tells raft whether the log store allows gaps.
func (g *guard) IsMonotonic() bool {
	m, ok := g.Log.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// FirstIndex returns the oldest index held.
func (g *guard) FirstIndex() (uint64, error) { return g.Log.FirstIndex() }

// LastIndex returns the newest index held.
func (g *guard) LastIndex() (uint64, error) { return g.Log.LastIndex() }

// GetLog reads an entry; one that is there but does not read ends the group.
func (g *guard) GetLog(index uint64, log *raft.Log) error {
	err := g.Log.GetLog(index, log)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		g.exit(fmt.Errorf("read raft log entry %d: %w", index, err))
	}
	return err
}

// StoreLog appends one entry.
func (g *guard) StoreLog(log *raft.Log) error { return g.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends entries; a failure (a full disk) ends the group.
func (g *guard) StoreLogs(logs []*raft.Log) error {
	err := g.Log.StoreLogs(logs)
	if err != nil {
		g.fail(fmt.Errorf("write raft log: %w", err))
	}
	return err
}

// DeleteRange removes entries.
func (g *guard) DeleteRange(low, high uint64) error {
	err := g.Log.DeleteRange(low, high)
	if err != nil {
		g.fail(fmt.Errorf("cut raft log: %w", err))
	}
	return err
}

// Set stores a value such as the vote.
func (g *guard) Set(key, value []byte) error {
	err := g.Stable.Set(key, value)
	if err != nil {
		g.fail(fmt.Errorf("write raft vote: %w", err))
	}
	return err
}

// Get reads a value.
func (g *guard) Get(key []byte) ([]byte, error) { return g.Stable.Get(key) }

// SetUint64 stores a number such as the term.
func (g *guard) SetUint64(key []byte, value uint64) error {
	err := g.Stable.SetUint64(key, value)
	if err != nil {
		g.exit(fmt.Errorf("write raft term: %w", err))
	}
	return nil
}

// GetUint64 reads a number.
func (g *guard) GetUint64(key []byte) (uint64, error) { return g.Stable.GetUint64(key) }
