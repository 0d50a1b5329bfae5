package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft"
)

// Verified is a snapshot store that reads each snapshot back as soon as it is stored: raft cuts its log behind a snapshot, and a
// server whose log is cut behind one that does not read can never start again.
type Verified struct {
	raft.SnapshotStore
	Dir  string // of raft's files; empty: snapshots are not in files
	Log  *slog.Logger
	Try  func(io.Reader) error // reads a snapshot, and returns why it does not read
	Good func(index uint64)    // called with the last log entry in a snapshot that reads
}

// Create begins a snapshot.
func (v *Verified) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := v.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	s := &verifiedSink{SnapshotSink: sink}
	s.close = sync.OnceValue(func() error {
		if err := sink.Close(); err != nil {
			return err
		}
		if err := v.readBack(sink.ID()); err != nil {
			v.Log.Error("a snapshot of the swarm's state can't be read back: it is thrown away, and the raft log is kept and grows until one can", "snapshot", sink.ID(), "err", err)
			return err
		}
		v.Good(index)
		return nil
	})
	return s, nil
}

// readBack reads a stored snapshot, and removes one that does not read.
func (v *Verified) readBack(id string) error {
	_, r, err := v.Open(id)
	if err == nil {
		err = errors.Join(v.Try(r), r.Close())
	}
	if err == nil {
		return nil
	}
	if v.Dir != "" {
		err = errors.Join(err, os.RemoveAll(filepath.Join(v.Dir, "snapshots", filepath.Base(id))))
	}
	return fmt.Errorf("read snapshot back: %w", err)
}

// verifiedSink is a snapshot that is being written.
type verifiedSink struct {
	raft.SnapshotSink
	close func() error
}

// Close stores the snapshot; an error says that it is not there to start from. Raft may close it twice.
func (s *verifiedSink) Close() error { return s.close() }
