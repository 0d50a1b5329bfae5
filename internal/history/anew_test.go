package history_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/history"
)

// TestAContractCreatedAnew has nothing of the one of its name that was deleted, whether this SN ran meanwhile or not; one that was reset has.
func TestAContractCreatedAnew(t *testing.T) {
	for _, tt := range []struct {
		name       string
		down, anew bool
		want       []uint64
	}{
		{"reset", false, false, []uint64{2, 3}},
		{"reset while the SN was down", true, false, []uint64{2, 3}},
		{"deleted and created", false, true, []uint64{3}},
		{"deleted and created while the SN was down", true, true, []uint64{3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { createdAnew(t, tt.down, tt.anew, tt.want) })
		})
	}
}

func createdAnew(t *testing.T, down, anew bool, want []uint64) {
	dir := t.TempDir()
	store, _ := open(t, dir, history.Limits{})
	on := newSN()
	created := time.Now().UnixMilli()
	show := func(c *state.Contract) {
		c.CreatedMS = created
		on.show(c)
		time.Sleep(time.Second)
	}
	_, _, stop := recording(t, store, on, sources{})
	show(committed(1, "sl-0"))
	show(committed(2, "sl-0"))
	if down {
		stop()
		store.Close()
	}
	if anew {
		created = time.Now().UnixMilli()
	}
	next := committed(1, "sl-0")
	next.Run = 3
	show(next)
	if down {
		store, _ = open(t, dir, history.Limits{})
		_, _, stop = recording(t, store, on, sources{})
		time.Sleep(time.Second)
	}
	stop()
	if got := store.Runs("c"); !cmp.Equal(got, want) {
		t.Errorf("kept are runs %v", got)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.history")); err != nil || len(files) != len(want) {
		t.Errorf("there are %v, %v", files, err)
	}
}

// TestAResetKeepsWhatWasNotYetWritten: the last round of the run before is committed a moment before the reset.
func TestAResetKeepsWhatWasNotYetWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		on := newSN()
		_, _, stop := recording(t, store, on, sources{})
		on.show(committed(1, "sl-0"))
		time.Sleep(time.Second)
		on.show(committed(2, "sl-0"))
		synctest.Wait()
		next := committed(1, "sl-0")
		next.Run = 3
		on.show(next)
		time.Sleep(time.Second)
		stop()
		if got, _ := rounds(t, store, "c", history.Query{Run: 2}); !cmp.Equal(got, []uint64{1, 2}) {
			t.Errorf("of the run before are kept %v", got)
		}
	})
}

// TestTheLedgerIsReadForWhatAnOlderVersionLeftOut: rounds that were kept without their method get it. Where the ledger has none either nothing is written
// again and again.
func TestTheLedgerIsReadForWhatAnOlderVersionLeftOut(t *testing.T) {
	for name, method := range map[string]string{"with a method": "mean", "without": ""} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { leftOut(t, method) }) })
	}
}

func leftOut(t *testing.T, method string) {
	dir := t.TempDir()
	store, _ := open(t, dir, history.Limits{})
	on, weight := newSN(), uint32(3)
	var bodies []ledger.Body
	for n := uint64(1); n <= 5; n++ {
		bodies = append(bodies, ledger.Round{Contract: "c", Run: 2, Round: n, Attempt: 1, Model: "m", Method: method, Participants: []ledger.Participant{{Node: "sl-0", Weight: weight}}})
		of := &history.Round{Round: n, Attempt: 1, Digest: "m", Record: n, Own: true, CommittedMS: 77, Peers: []history.Peer{{Node: "sl-0", Loss: number(0.5), Weight: &weight, Contributed: true}}}
		if n < 2 || n > 4 {
			of.Method = "mean"
		}
		if err := store.Put("c", 2, of); err != nil {
			t.Fatal(err)
		}
	}
	on.ledger = records(t, bodies...)
	next := committed(5, "sl-0")
	on.show(next)
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "c.2.history"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	_, _, stop := recording(t, store, on, sources{})
	time.Sleep(time.Minute)
	stop()
	for n := uint64(2); n <= 4; n++ {
		if got := get(t, store, "c", 2, n); got.Method != method || got.Record != n || got.Peers[0].Loss == nil {
			t.Errorf("round %d: %+v", n, got)
		}
	}
	before := size()
	_, _, stop = recording(t, store, on, sources{})
	time.Sleep(time.Minute)
	stop()
	if again := size() - before; again > 300 { // the last round, as it is seen
		t.Errorf("another %d bytes are written", again)
	}
}

// TestAnOlderSNTakesNoNameAway of a metric: it tells the metric alone.
func TestAnOlderSNTakesNoNameAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		if err := store.Put("c", 2, &history.Round{Round: 1, Peers: []history.Peer{{Node: "sl-0", Metric: number(0.5), MetricName: "F1 score"}}}); err != nil {
			t.Fatal(err)
		}
		on := newSN()
		on.show(committed(1, "sl-0"))
		_, _, stop := recording(t, store, on, sources{"": func(string, history.Query) (history.Part, bool, error) {
			return history.Part{Run: 2, Last: 1, Rounds: []*history.Round{{Round: 1, Peers: []history.Peer{{Node: "sl-0", Metric: number(0.75)}}}}}, true, nil
		}})
		time.Sleep(10 * time.Second)
		stop()
		if p := get(t, store, "c", 2, 1).Peers[0]; p.MetricName != "F1 score" || p.Metric == nil || *p.Metric != 0.75 {
			t.Errorf("kept is %+v", p)
		}
	})
}
