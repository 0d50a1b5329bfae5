package history_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
