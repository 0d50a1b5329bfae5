package consensus

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/store"
	"github.com/swarmd/swarmd/consensus/watchdog"
)

// ErrNoRemains says that stores hold neither entries nor a snapshot.
var ErrNoRemains = errors.New("there is neither a raft log nor a snapshot")

// Remains are what a server that does not run has in its stores.
type Remains struct {
	// State is the one after all entries of the log, also those of which the server does not know whether they were committed.
	State     *state.State
	LastIndex uint64 // of the log and the snapshot
	Servers   []raft.Server

	stores store.Stores
	log    *slog.Logger
	term   uint64
	view   *view
}

// ReadRemains reads stores and changes nothing; stores without a ledger will do. What does not read is an error, and ErrNoRemains that
// there is nothing.
func ReadRemains(stores store.Stores, log *slog.Logger) (*Remains, error) {
	// Into a ledger in memory: what was not committed must not get into the real one before it is known that it will be.
	file, err := ledgerfile.Open(ledgerfile.NewInmem(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	r := &Remains{stores: stores, log: log}
	if err := r.replay(file); err != nil {
		return nil, fmt.Errorf("read raft state: %w", err)
	}
	if r.LastIndex == 0 {
		return nil, ErrNoRemains
	}
	return r, nil
}

// replay brings the state to the end of the log, and the ledger with it.
func (r *Remains) replay(file *ledgerfile.File) error {
	var failed error
	f := newFSM(func(err error) { failed = errors.Join(failed, err) }, watchdog.New(time.Hour), file)
	r.LastIndex, r.term, r.Servers = 0, 0, nil
	snaps, err := r.stores.Snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, meta := range snaps { // the newest that reads, as raft does
		_, in, err := r.stores.Snapshots.Open(meta.ID)
		if err == nil {
			err = f.Restore(in)
			err = errors.Join(err, in.Close())
		}
		if err != nil {
			r.log.Warn("a snapshot does not read; the one before is tried", "snapshot", meta.ID, "err", err)
			continue
		}
		failed = nil
		r.LastIndex, r.term, r.Servers = meta.Index, meta.Term, meta.Configuration.Servers
		break
	}
	if len(snaps) > 0 && r.LastIndex == 0 {
		return fmt.Errorf("no snapshot reads: %w", failed)
	}
	last, err := r.stores.Log.LastIndex()
	if err != nil {
		return fmt.Errorf("read raft log: %w", err)
	}
	for i := r.LastIndex + 1; i <= last; i++ {
		var entry raft.Log
		if err := r.stores.Log.GetLog(i, &entry); err != nil {
			return fmt.Errorf("read raft log entry %d: %w", i, err)
		}
		switch entry.Type {
		case raft.LogCommand:
			f.Apply(&entry)
		case raft.LogConfiguration:
			r.Servers = raft.DecodeConfiguration(entry.Data).Servers
		default: // raft's own
		}
		if failed != nil {
			return failed
		}
		r.LastIndex, r.term = i, entry.Term
	}
	r.view = f.view.Load()
	r.State = r.view.state
	return nil
}

// Refound makes a group of this one server of what remains, with c applied to it last. The ledger gets the records of both, and then a
// snapshot that holds all that takes the place of those before at once. Called again after it was interrupted, with the same command,
// it ends the same; when the snapshot holds the command already it only removes the log that is left behind it.
func (r *Remains) Refound(name, address string, ledger ledgerfile.Store, c state.RecoverSwarm) error {
	if r.State.Epoch() == c.Recovery.Epoch {
		return r.cut()
	}
	file, err := ledgerfile.Open(ledger, r.log)
	if err == nil {
		err = r.replay(file)
	}
	if err != nil {
		return fmt.Errorf("found the group anew: %w", err)
	}
	if have, want, behind := file.Missing(); behind {
		return fmt.Errorf("found the group anew: the ledger has %d of %d records: put another SN's copy or a backup in its place (swarmctl get ledger)", have, want.Length)
	}
	next, result, err := r.State.Apply(c)
	if err == nil {
		err = state.CheckChange(r.State, next)
	}
	if err == nil {
		err = file.Applied(r.State.LedgerHead(), next.LedgerHead(), result.Records)
	}
	if err != nil {
		return fmt.Errorf("found the group anew: %w", err)
	}
	if err := r.snapshot(name, address, &view{next, r.LastIndex}, file); err != nil {
		return fmt.Errorf("found the group anew: %w", err)
	}
	return r.cut()
}

// snapshot stores a view as all that a server alone has.
func (r *Remains) snapshot(name, address string, v *view, file *ledgerfile.File) error {
	alone := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(name), Address: raft.ServerAddress(address)}}}
	term, err := r.stores.Stable.GetUint64([]byte(store.KeyTerm))
	if err != nil && err.Error() != "not found" {
		return fmt.Errorf("read raft term: %w", err)
	}
	if term < r.term || term == 0 { // a log that was lost beside its snapshot
		if err := r.stores.Stable.SetUint64([]byte(store.KeyTerm), max(r.term, 1)); err != nil {
			return fmt.Errorf("write raft term: %w", err)
		}
	}
	_, trans := raft.NewInmemTransport(raft.ServerAddress(address)) // which only a format of long ago asks for anything
	snaps := &store.Verified{SnapshotStore: r.stores.Snapshots, Log: r.log, Try: trySnapshot, Good: func(uint64) {}}
	sink, err := snaps.Create(raft.SnapshotVersionMax, r.LastIndex, max(r.term, 1), alone, 1, trans)
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return snapshot{v, file}.Persist(sink)
}

// cut removes the old group's log, which the snapshot covers.
func (r *Remains) cut() error {
	first, err := r.stores.Log.FirstIndex()
	if err != nil {
		return fmt.Errorf("cut raft log: %w", err)
	}
	last, err := r.stores.Log.LastIndex()
	if err == nil && first > 0 && first <= r.LastIndex {
		err = r.stores.Log.DeleteRange(first, min(last, r.LastIndex))
	}
	if err != nil {
		return fmt.Errorf("cut raft log: %w", err)
	}
	return nil
}
