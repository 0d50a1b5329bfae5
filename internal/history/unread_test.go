package history_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/history"
	"github.com/swarmd/swarmd/internal/round"
)

// breakReads has a disk refuse to give out what is kept of a contract.
func breakReads(t *testing.T, s *history.Store, contract string) (mend func()) {
	t.Helper()
	return must(s.BreakReads(contract))(t)
}

// TestWhatCantBeReadForAWhileIsNotLost: a file is not written anew without records that the disk may give out again, but for ever it does not wait.
func TestWhatCantBeReadForAWhileIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, said := open(t, t.TempDir(), history.Limits{Contract: 20 << 10})
		put(t, s, "a", 1, upTo(50)...)
		mend := breakReads(t, s, "a")
		if r, err := s.Get("a", 1, 5); r != nil || err == nil {
			t.Errorf("what can't be read is %v, %v", r, err)
		}
		n, failed := uint64(50), 0
		for ; n < 1000 && failed == 0; n++ {
			if err := s.Put("a", 1, &history.Round{Round: n + 1}); err != nil {
				failed++
			}
		}
		mend()
		if got, _ := rounds(t, s, "a", history.Query{}); failed == 0 || len(got) != int(n)-1 || said.Len() > 0 {
			t.Fatalf("%d of %d rounds are left, said %s", len(got), n, said)
		}
		mend = breakReads(t, s, "a")
		if err := s.Put("a", 1, &history.Round{Round: n}); err == nil {
			t.Error("a record is written beyond the limit")
		}
		var err error
		for range 11 {
			time.Sleep(time.Minute)
			err = s.Put("a", 1, &history.Round{Round: n})
		}
		if err != nil {
			t.Errorf("after a long time: %v", err)
		}
		mend()
	})
}

// TestTwoRefusalsAreNotOne: a record that the disk does not give out for a moment, and hours later for another, is not lost.
func TestTwoRefusalsAreNotOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, said := open(t, t.TempDir(), history.Limits{})
		put(t, s, "a", 1, upTo(5)...)
		for range 2 {
			mend := breakReads(t, s, "a")
			if r, err := s.Get("a", 1, 5); err == nil {
				t.Errorf("what can't be read is %v, without an error", r)
			}
			mend()
			time.Sleep(2 * time.Hour)
		}
		put(t, s, "a", 1, 6)
		if got, _ := rounds(t, s, "a", history.Query{}); !cmp.Equal(got, upTo(6)) || said.Len() > 0 {
			t.Errorf("kept are %v, said %s", got, said)
		}
	})
}

// TestNoPoorerRecordTakesThePlace of one that can't be read for a while.
func TestNoPoorerRecordTakesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		put(t, store, "c", 2, 1, 3, 4, 5, 6) // so that the ledger is read behind 1
		mend := breakReads(t, store, "c")
		on := newSN()
		var bodies []ledger.Body
		for n := uint64(1); n <= 6; n++ {
			bodies = append(bodies, ledger.Round{Contract: "c", Run: 2, Round: n, Attempt: 1, Model: "m", Participants: []ledger.Participant{{Node: "sl-0", Weight: 3}, {Node: "sl-1", Weight: 3}}})
		}
		on.ledger = records(t, bodies...)
		_, out, _ := recording(t, store, on, sources{"": func(string, history.Query) (history.Part, bool, error) {
			return history.Part{Run: 2, Last: 4, Rounds: []*history.Round{{Round: 3, Exchange: ms(time.Second)}}}, true, nil
		}})
		on.show(committed(6, "sl-0", "sl-1"))
		time.Sleep(time.Minute)
		on.show(committed(7, "sl-1")) // of which there is none
		time.Sleep(time.Minute)
		mend()
		time.Sleep(2 * time.Minute)
		got, part := rounds(t, store, "c", history.Query{})
		if !cmp.Equal(got, upTo(7)) {
			t.Fatalf("kept are %v", got)
		}
		for _, r := range part.Rounds[:6] {
			if r.Round != 2 && (r.Peers[0].Loss == nil || *r.Peers[0].Loss != float64(r.Round)) {
				t.Errorf("of round %d is left %+v", r.Round, r)
			}
		}
		if three := part.Rounds[2]; three.Exchange == nil || len(three.Peers) != 2 {
			t.Errorf("what came meanwhile is not taken in: %+v", three)
		}
		if n := out.count("could not read a round's history"); n != 1 {
			t.Errorf("said %d times that a record can't be read: %s", n, &out.all)
		}
	})
}

// trainings shows contracts, and a ledger of which all is read.
func (s *sn) trainings(ledgers [][]byte, all ...*state.Contract) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = ledgers
	s.view = &state.State{SwarmID: "s", Ledger: &ledger.Head{Length: uint64(len(ledgers))}, Contracts: map[string]*state.Contract{}}
	for _, c := range all {
		s.view.Contracts[c.Name] = c
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// TestOtherContractsGoOn while a record of one can't be read.
func TestOtherContractsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		put(t, store, "a", 2, upTo(6)...)
		var bodies []ledger.Body
		for n := uint64(1); n <= 8; n++ {
			for _, name := range []string{"a", "c"} {
				bodies = append(bodies, ledger.Round{Contract: name, Run: 2, Round: n, Attempt: 1, Model: "m", Participants: []ledger.Participant{{Node: "sl-0", Weight: 3}}})
			}
		}
		all := records(t, bodies...)
		a := func(n uint64) *state.Contract {
			c := committed(n, "sl-0")
			c.Name = "a"
			return c
		}
		on := newSN()
		on.trainings(all[:12], a(6), committed(6, "sl-0"))
		var broken atomic.Bool
		r, out, _ := recording(t, store, on, sources{"": func(contract string, _ history.Query) (history.Part, bool, error) {
			if contract != "a" || !broken.Load() {
				return history.Part{}, true, nil
			}
			return history.Part{Run: 2, Last: 6, Rounds: []*history.Round{{Round: 3, Exchange: ms(time.Second)}}}, true, nil
		}})
		time.Sleep(10 * time.Second)
		mend := breakReads(t, store, "a")
		broken.Store(true)
		on.trainings(all[:13], a(7), committed(6, "sl-0"))
		time.Sleep(5 * time.Second)
		if n := out.count("could not read a round's history"); n != 1 {
			t.Fatalf("said %d times that a record can't be read: %s", n, &out.all)
		}
		on.trainings(all[:14], a(7), committed(7, "sl-0"))
		time.Sleep(time.Second)
		r.Observe(said("s", 1, round.Progress{Round: 7, Loss: 0.5, HasLoss: true}))
		on.trainings(all[:16], a(8), committed(8, "sl-0"))
		time.Sleep(time.Minute)
		for n := uint64(6); n <= 8; n++ {
			if c := get(t, store, "c", 2, n); c == nil || c.Record != 2*n {
				t.Errorf("round %d of the other contract: %+v", n, c)
			}
		}
		if c := get(t, store, "c", 2, 7); c == nil || c.Peers[0].Loss == nil {
			t.Errorf("what is reported of the other contract is not kept: %+v", c)
		}
		mend()
		time.Sleep(time.Minute)
		for n := uint64(7); n <= 8; n++ {
			if c := get(t, store, "a", 2, n); c == nil || c.Record != 2*n-1 {
				t.Errorf("round %d: %+v", n, c)
			}
		}
		if three := get(t, store, "a", 2, 3); three.Exchange == nil || three.Peers[0].Loss == nil {
			t.Errorf("round 3: %+v", three)
		}
	})
}

// TestTheLedgerIsReadForARoundThatWaits: what is kept of it can't be read when it is committed.
func TestTheLedgerIsReadForARoundThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		put(t, store, "c", 2, upTo(6)...) // before a restart; the state is older
		var bodies []ledger.Body
		for n := uint64(1); n <= 5; n++ {
			bodies = append(bodies, ledger.Round{Contract: "c", Run: 2, Round: n, Attempt: 1, Model: "m", Participants: []ledger.Participant{{Node: "sl-0", Weight: 3}}})
		}
		all := records(t, bodies...)
		on := newSN()
		on.trainings(all[:4], committed(4, "sl-0"))
		_, _, _ = recording(t, store, on, sources{})
		time.Sleep(time.Second)
		mend := breakReads(t, store, "c")
		on.trainings(all, committed(5, "sl-0"))
		time.Sleep(time.Second)
		mend()
		time.Sleep(time.Minute)
		if five := get(t, store, "c", 2, 5); five.Record != 5 || five.Peers[0].Loss == nil {
			t.Errorf("round 5: %+v", five)
		}
	})
}
