package consensus_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
)

// logBytes sums a log's entries up.
func logBytes(t *testing.T, log raft.LogStore) (entries, size int) {
	t.Helper()
	first, err := log.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	last, err := log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for i := first; first > 0 && i <= last; i++ {
		var e raft.Log
		if err := log.GetLog(i, &e); err != nil {
			return entries, size // cut meanwhile
		}
		entries, size = entries+1, size+len(e.Data)
	}
	return entries, size
}

// layoutSession opens a session with a layout of its own, which replaces the one before.
func layoutSession(n, size int) state.OpenSession {
	return state.OpenSession{
		Session: fmt.Sprintf("%032x", n), Contract: "study", Node: "sl-0", SyncFrequency: 1, Weight: 1,
		Terms: state.Terms{LayoutDigest: fmt.Sprintf("%064x", n), Layout: []byte(strings.Repeat("x", size)), Leaves: 1, Method: "mean", MinPeers: 9},
	}
}

// TestLogIsCutByItsBytes is how one SL filled the disks of all SNs: sessions with large layouts, of which thousands fit between two
// cuts of a log that is cut by the number of its entries.
func TestLogIsCutByItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, trailing, layout = 256 << 10, 64 << 10, 30 << 10
		s := newSwarm(t)
		s.timing = consensus.Timing{SnapshotBytes: limit, TrailingBytes: trailing}
		s.form("a", "b")
		s.propose("a", "sl-0")
		most, written := 0, 0
		for i := range 60 {
			c := layoutSession(i, layout)
			if _, err := s.servers["a"].Propose(s.within(10*time.Second), c); err != nil {
				t.Fatal(err)
			}
			b, err := state.EncodeCommand(c)
			if err != nil {
				t.Fatal(err)
			}
			written += len(b)
			synctest.Wait()
			for _, on := range []string{"a", "b"} {
				_, size := logBytes(t, s.stores[on].Log)
				most = max(most, size)
			}
		}
		if bound := limit + trailing + 2*layout*4/3; most > bound || written < 4*bound {
			t.Errorf("the log had %d bytes of %d that were written, want %d at most", most, written, bound)
		}
		t.Logf("%d bytes were written, the log had %d at most", written, most)
		for _, on := range []string{"a", "b"} {
			s.until("the log of "+on+" to be cut", func() bool { _, size := logBytes(t, s.stores[on].Log); return size <= limit+trailing })
		}
		s.join("c", "b")
		s.converged(three...)
		for _, on := range three { // what a server finds at its start counts too
			s.stop(on)
			s.start(on)
		}
		s.converged(three...)
	})
}

// rotten are snapshots that can't be read while bad is set.
type rotten struct {
	raft.SnapshotStore
	bad atomic.Bool
}

func (r *rotten) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, rc, err := r.SnapshotStore.Open(id)
	if r.bad.Load() && err == nil {
		return meta, io.NopCloser(strings.NewReader("not what was written")), rc.Close()
	}
	return meta, rc, err
}

// said is a log handler that tells of messages at error level.
type said struct {
	slog.Handler
	errors *atomic.Int64
}

func (s said) Enabled(context.Context, slog.Level) bool { return true }
func (s said) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s said) WithGroup(string) slog.Handler            { return s }
func (s said) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError && strings.Contains(r.Message, "can't be read back") {
		s.errors.Add(1)
	}
	return nil
}

// TestLogStaysBehindASnapshotThatCanNotBeRead: with the log cut behind such a one no server could ever start again.
func TestLogStaysBehindASnapshotThatCanNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		var errors atomic.Int64
		s.logs = func(string) slog.Handler { return said{slog.DiscardHandler, &errors} }
		s.timing = consensus.Timing{SnapshotAfter: 8, Trailing: 2, SnapshotEvery: time.Second}
		cfg := s.config("a")
		disk := &rotten{SnapshotStore: cfg.Stores.Snapshots}
		cfg.Stores.Snapshots = disk
		disk.bad.Store(true)
		s.form("a")
		for i := range 30 {
			s.propose("a", fmt.Sprintf("sl-%d", i))
		}
		s.until("a snapshot to be refused", func() bool { return errors.Load() > 1 })
		if first, err := cfg.Stores.Log.FirstIndex(); err != nil || first != 1 {
			t.Errorf("the log begins at %d behind a snapshot that can't be read: %v", first, err)
		}
		disk.bad.Store(false)
		s.until("the log to be cut", func() bool { first, err := cfg.Stores.Log.FirstIndex(); return err == nil && first > 10 })
		s.stop("a")
		s.start("a")
		s.until("the state to be back", func() bool { return s.servers["a"].View().Nodes["sl-29"] != nil })
	})
}
