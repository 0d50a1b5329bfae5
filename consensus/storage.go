package consensus

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/store"
	"github.com/swarmd/swarmd/consensus/watchdog"
)

// storage is what this server keeps on disk, and what watches the disk.
type storage struct {
	dir     string // raft's files; empty with injected stores
	stores  Stores
	closers store.Closers // of what was opened
	ledger  *ledgerfile.File
	disk    *watchdog.Watchdog
	growth  *store.Growth
	term    *atomic.Uint64 // raft's, as it was stored last
	log     *slog.Logger
}

// openStorage opens the stores and the ledger of a server. A log that does not read or has vanished is an error.
func openStorage(cfg Config) (*storage, error) {
	t := cfg.Timing
	s := &storage{
		disk: watchdog.New(t.Disk), growth: store.NewGrowth(t.SnapshotBytes, t.TrailingBytes, t.Trailing), term: new(atomic.Uint64), log: cfg.Log,
	}
	if cfg.Stores != nil {
		s.stores = *cfg.Stores
	} else {
		s.dir = filepath.Join(cfg.Dir, "raft")
		var err error
		if s.stores, s.closers, err = store.Open(s.dir, s.log); err != nil {
			return nil, err
		}
	}
	err := store.CheckMember(s.dir, s.stores)
	if err == nil {
		err = s.openLedger(cfg.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.closers.Close())
	}
	if err := s.growth.Load(s.stores); err != nil {
		return nil, errors.Join(fmt.Errorf("read raft log: %w", err), s.close())
	}
	return s, nil
}

// openLedger opens the ledger: in the node's directory, in the given stores, or in memory for both without.
func (s *storage) openLedger(dir string) error {
	held := s.stores.Ledger
	switch {
	case held != nil:
	case dir == "":
		held = ledgerfile.NewInmem()
	default:
		f, err := ledgerfile.OpenFile(dir)
		if err != nil {
			return err
		}
		s.closers = append(store.Closers{f}, s.closers...)
		held = f
	}
	var err error
	s.ledger, err = ledgerfile.Open(held, s.log)
	return err
}

// guarded returns the stores for raft; fail is called when one breaks.
func (s *storage) guarded(fail func(error)) (*store.Guard, raft.SnapshotStore) {
	return &store.Guard{Stores: s.stores, Fail: fail, Disk: s.disk, Term: s.term, Growth: s.growth},
		&store.Verified{SnapshotStore: s.stores.Snapshots, Dir: s.dir, Log: s.log, Try: trySnapshot, Good: s.growth.Covered}
}

func (s *storage) close() error { return errors.Join(s.ledger.Close(), s.closers.Close()) }
