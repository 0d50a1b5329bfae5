package consensus

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/watchdog"
)

// applied is the outcome of one log entry.
type applied struct {
	index  uint64
	result state.Result
	err    error
}

// view is a published state with the index of the last command in it.
type view struct {
	state *state.State
	index uint64
}

// fsm is the only code that knows both raft and the state: decode, apply, publish. Raft calls Apply, Snapshot and
// Restore from one goroutine; readers take the published view without a lock.
type fsm struct {
	// fail reports, once, why this node can not follow the log any further.
	fail   func(error)
	disk   *watchdog.Watchdog
	ledger *ledgerfile.File // follows the state
	view   atomic.Pointer[view]

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever view is

	halted error // set by the raft goroutine, after which nothing is applied
}

var _ raft.FSM = (*fsm)(nil)

func newFSM(fail func(error), disk *watchdog.Watchdog, ledger *ledgerfile.File) *fsm {
	f := &fsm{fail: fail, disk: disk, ledger: ledger, changed: make(chan struct{})}
	f.view.Store(&view{state: state.New()})
	return f
}

// Apply applies one committed entry and returns an applied. A rejection is a result; anything else that goes wrong
// halts this node: to go on would mean two histories.
func (f *fsm) Apply(entry *raft.Log) any {
	if f.halted != nil {
		return applied{index: entry.Index, err: f.halted}
	}
	old := f.view.Load()
	next, result, err := applyEntry(old.state, entry.Data)
	if err == nil {
		// The ledger first: what the view shows is on record.
		done := f.disk.During("writing the ledger")
		err = f.ledger.Applied(old.state.LedgerHead(), next.LedgerHead(), result.Records)
		done()
	}
	if _, rejected := errors.AsType[*state.Error](err); err != nil && !rejected {
		f.halted = fmt.Errorf("apply log entry %d: %w: this node stops so that its state does not part from the others'", entry.Index, err)
		f.fail(f.halted)
		return applied{index: entry.Index, err: f.halted}
	}
	f.publish(&view{state: next, index: entry.Index})
	return applied{index: entry.Index, result: result, err: err}
}

// applyEntry is Apply without raft. A panic of the state machine is an error like any other.
func applyEntry(old *state.State, data []byte) (next *state.State, result state.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("state machine panicked: %v", p)
		}
	}()
	c, err := state.DecodeCommand(data)
	if err != nil {
		return old, state.Result{}, err
	}
	next, result, err = old.Apply(c)
	if err != nil {
		return old, state.Result{}, err
	}
	if err := state.CheckChange(old, next); err != nil {
		return old, state.Result{}, fmt.Errorf("command %s breaks an invariant: %w", c.Type(), err)
	}
	return next, result, nil
}

func (f *fsm) publish(v *view) {
	f.view.Store(v)
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

// next returns a channel that is closed when a view newer than those already seen is published.
func (f *fsm) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Snapshot keeps the current view: it is immutable, so nothing is copied. The index goes in too, because raft's own
// may be that of an entry which holds no command.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.halted != nil {
		return nil, f.halted
	}
	return snapshot{f.view.Load(), f.ledger}, nil
}

// Restore replaces the state by a snapshot's.
func (f *fsm) Restore(r io.ReadCloser) error {
	v, err := readSnapshot(r)
	if err == nil {
		err = f.ledger.Restored(v.state.LedgerHead())
	}
	if err != nil {
		err = fmt.Errorf("restore snapshot: %w", errors.Join(err, r.Close()))
		f.fail(err)
		return err
	}
	f.publish(v)
	return nil
}

// snapshot is a view that raft stores when it likes.
type snapshot struct {
	view   *view
	ledger *ledgerfile.File
}

// Persist encodes the view into sink and closes it. The ledger goes to disk first: the log entries that could write its
// records again are cut off behind the snapshot.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	err := s.ledger.Sync()
	if err == nil {
		err = writeSnapshot(sink, s.view)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release does nothing: the view belongs to nobody.
func (snapshot) Release() {}

// writeSnapshot writes the view's index, eight bytes big endian, and its state.
func writeSnapshot(w io.Writer, v *view) error {
	b, err := state.EncodeSnapshot(v.state)
	if err != nil {
		return err
	}
	if _, err := w.Write(appendUint64(nil, v.index)); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func readSnapshot(r io.Reader) (*view, error) {
	b, err := io.ReadAll(io.LimitReader(r, state.MaxSnapshotBytes+9))
	if err != nil {
		return nil, err
	}
	index, rest, ok := cutUint64(b)
	if !ok {
		return nil, fmt.Errorf("snapshot of %d bytes has no index: %w", len(b), state.ErrMalformed)
	}
	s, err := state.DecodeSnapshot(rest)
	if err != nil {
		return nil, err
	}
	return &view{state: s, index: index}, nil
}

// trySnapshot returns why a snapshot does not read, or nil.
func trySnapshot(r io.Reader) error {
	_, err := readSnapshot(r)
	return err
}
