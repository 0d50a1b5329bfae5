package consensus

import (
	"io"
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestSnapshotFileThatCanNotBeReadIsDropped holds on real files that the one before stays the newest.
func TestSnapshotFileThatCanNotBeReadIsDropped(t *testing.T) {
	dir := t.TempDir()
	files, err := raft.NewFileSnapshotStore(dir, retainSnapshots, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var good []uint64
	store := &verified{SnapshotStore: files, dir: dir, log: slog.New(slog.DiscardHandler), good: func(i uint64) { good = append(good, i) }}
	_, trans := raft.NewInmemTransport("a")
	add := func(index uint64, write func(io.Writer) error) error {
		sink, err := store.Create(1, index, 1, raft.Configuration{}, 1, trans)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(sink); err != nil {
			t.Fatal(err)
		}
		if first := sink.Close(); first != nil {
			return first
		}
		return sink.Close() // as raft does after Persist
	}
	whole := func(w io.Writer) error { return writeSnapshot(w, &view{state: state.New(), index: 7}) }
	if err := add(7, whole); err != nil {
		t.Fatal(err)
	}
	for _, write := range []func(io.Writer) error{
		func(w io.Writer) error { _, err := io.WriteString(w, "garbage of more than eight bytes"); return err },
		func(io.Writer) error { return nil },
	} {
		if err := add(8, write); err == nil {
			t.Error("garbage was taken for a snapshot")
		}
	}
	list, err := store.List()
	if err != nil || len(list) != 1 || list[0].Index != 7 || len(good) != 1 {
		t.Errorf("snapshots %+v, good %v, %v", list, good, err)
	}
}
