package store

import (
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"
)

// TestSnapshotFileThatCanNotBeReadIsDropped holds on real files that the one before stays the newest.
func TestSnapshotFileThatCanNotBeReadIsDropped(t *testing.T) {
	dir := t.TempDir()
	files, err := raft.NewFileSnapshotStore(dir, retainSnapshots, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var good []uint64
	const whole = "a whole snapshot"
	try := func(r io.Reader) error {
		b, err := io.ReadAll(r)
		if err == nil && string(b) != whole {
			err = errors.New("garbage")
		}
		return err
	}
	store := &Verified{SnapshotStore: files, Dir: dir, Log: slog.New(slog.DiscardHandler), Try: try, Good: func(i uint64) { good = append(good, i) }}
	_, trans := raft.NewInmemTransport("a")
	add := func(index uint64, content string) error {
		sink, err := store.Create(1, index, 1, raft.Configuration{}, 1, trans)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(sink, content); err != nil {
			t.Fatal(err)
		}
		if first := sink.Close(); first != nil {
			return first
		}
		return sink.Close() // as raft does after Persist
	}
	if err := add(7, whole); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"garbage", ""} {
		if err := add(8, content); err == nil {
			t.Error("garbage was taken for a snapshot")
		}
	}
	list, err := store.List()
	if err != nil || len(list) != 1 || list[0].Index != 7 || len(good) != 1 {
		t.Errorf("snapshots %+v, good %v, %v", list, good, err)
	}
}
