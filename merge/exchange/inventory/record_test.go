package inventory_test

import (
	"errors"
	"testing"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/inventory"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
)

// three own two leaves each; this node is the first, and merges the second's shard as well.
var (
	owned = []leafset.Runs{{{First: 0, Leaves: 2}}, {{First: 2, Leaves: 2}}, {{First: 4, Leaves: 2}}}
	task  = leafset.Runs{{First: 0, Leaves: 4}}
)

func newRecord() *inventory.Record {
	return inventory.NewRecord(owned, task, []int{0, 1}, []int{1, 2}, 6, inventory.NewSignal())
}

func sum(text string) merge.Digest { return merge.Sum([]byte(text)) }

func TestARecordIsFinishedWithItsTask(t *testing.T) {
	r := newRecord()
	for leaf := range 4 {
		if done, _ := r.Finished(); done || r.Has(leaf) {
			t.Errorf("leaf %d is merged before it is", leaf)
		}
		if last := r.Merge(leaf, merge.Sum([]byte{byte(leaf)})); last != (leaf == 3) {
			t.Errorf("leaf %d is the last one: %v", leaf, last)
		}
	}
	if last := r.Merge(1, sum("again")); !last {
		t.Error("a leaf that is merged once more is missing")
	}
	if done, _ := r.Finished(); !done || r.Bitmap()[0] != 0b1111 {
		t.Errorf("finished: %v, merged: %b", done, r.Bitmap())
	}
	if got, want := r.MergedDigest(1), merge.Combine([]merge.Digest{merge.Sum([]byte{2}), merge.Sum([]byte{3})}); got != want {
		t.Errorf("the second's shard has %s, want %s", got, want)
	}
}

// TestWhatIsSignedIsSignedForGood: of what was sent, once, and nothing else is sent afterwards.
func TestWhatIsSignedIsSignedForGood(t *testing.T) {
	r, signed := newRecord(), 0
	sign := func(d merge.Digest) (round.Input, error) {
		signed++
		return round.Input{Digest: d, Signature: []byte{byte(signed)}}, nil
	}
	if err := r.Send(4, []byte("a")); err != nil || !r.Sent(4) || r.Sent(5) {
		t.Errorf("leaf 4: %v", err)
	}
	if _, err := r.Word(2, sign); err == nil || signed > 0 {
		t.Error("a shard was signed of which a leaf is not known")
	}
	if err := r.Send(5, []byte("b")); err != nil {
		t.Error(err)
	}
	failed := errors.New("no key")
	if _, err := r.Word(2, func(merge.Digest) (round.Input, error) { return round.Input{}, failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want that there is no key", err)
	}
	want := merge.Combine([]merge.Digest{sum("a"), sum("b")})
	for range 2 {
		if in, err := r.Word(2, sign); err != nil || in.Digest != want || signed != 1 {
			t.Errorf("signed %d times: %s, %v", signed, in.Digest, err)
		}
	}
	if err := r.Send(4, []byte("c")); !errors.Is(err, inventory.ErrChanged) {
		t.Errorf("got %v, want that the weights have changed", err)
	}
	if err := r.Send(4, []byte("a")); err != nil {
		t.Errorf("the same again: %v", err)
	}
}

func TestWhatOthersSignIsWhatCame(t *testing.T) {
	r := newRecord()
	r.Came(2, 2, []byte("a"))
	r.Came(2, 3, []byte("b"))
	good := round.Input{Digest: merge.Combine([]merge.Digest{sum("a"), sum("b")}), Signature: []byte("s")}
	for owner, ok := range map[int]bool{0: false, 1: true} {
		if err := r.Take(2, owner, good); (err == nil) != ok {
			t.Errorf("shard %d: %v", owner, err)
		}
		if got := r.Input(owner, 2); (got.Signature != nil) != ok {
			t.Errorf("shard %d: %+v is kept", owner, got)
		}
	}
}

func TestLeavesWakeWhoWaits(t *testing.T) {
	changed := inventory.NewSignal()
	l := inventory.NewLeaves(6, changed)
	ready, next := l.Ready(1)
	held, _ := l.HasShard(owned[0])
	if ready || held || l.HasAll([]int{0, 1}) {
		t.Error("there are leaves before any came")
	}
	l.Add(0, sum("a"))
	l.Add(1, sum("b"))
	select {
	case <-next:
		t.Error("who waits was woken before it was told to")
	default:
	}
	changed.Wake()
	<-next
	held, _ = l.HasShard(owned[0])
	if ready, _ = l.Ready(1); !ready || !held || !l.HasAll([]int{0, 1}) || l.Bitmap(task)[0] != 0b11 {
		t.Errorf("ready: %v, held: %v, %b", ready, held, l.Bitmap(task))
	}
	if got := l.Digest(owned[0]); got != merge.Combine([]merge.Digest{sum("a"), sum("b")}) {
		t.Errorf("the shard has %s", got)
	}
	if all, state := l.Digests(); len(all) != 6 || !state.IsZero() {
		t.Errorf("%d leaves, state %s", len(all), state)
	}
	l.WithStates()
	l.AddState(0, sum("s"))
	if _, state := l.Digests(); state.IsZero() {
		t.Error("there is no state")
	}
	l.Drop(owned[0])
	if l.Has(0) || l.Has(1) {
		t.Error("leaves that were dropped are there")
	}
}
