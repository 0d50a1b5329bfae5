package consensus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/state"
)

func firstBundle() state.RecordBundle {
	return state.BundleOf("a.example", [][]byte{[]byte("authority")}, 1)
}

// proven registers an SL in a way that leaves a record.
func proven(name string) state.RegisterNode {
	c := registerSL(name)
	c.Node.SPIFFEID, c.Signature, c.Chain = "spiffe://a.example/swarm/sl", []byte("signed"), [][]byte{[]byte("leaf")}
	return c
}

func (s *swarm) record(on string, commands ...state.Command) {
	s.t.Helper()
	for _, c := range commands {
		if _, ok := c.(state.RecordBundle); ok {
			s.recordBundle(c)
			continue
		}
		if _, err := s.servers[on].Propose(s.within(30*time.Second), c); err != nil {
			s.t.Fatalf("propose %s on %s: %v", c.Type(), on, err)
		}
	}
}

// recordBundle has whoever leads propose it, as only a leader does, and tries again while that changes.
func (s *swarm) recordBundle(c state.Command) {
	s.t.Helper()
	s.until("a bundle to be recorded", func() bool {
		for _, sv := range s.servers {
			if sv.IsLeader() {
				_, err := sv.ProposeAsLeader(s.within(time.Second), c)
				return err == nil
			}
		}
		return false
	})
}

// fill records n registrations.
func (s *swarm) fill(on, prefix string, n int) {
	s.t.Helper()
	for i := range n {
		s.record(on, proven(fmt.Sprintf("%s-%d", prefix, i)))
	}
}

// whole returns a server's ledger, read as another would.
func (s *swarm) whole(name string) []byte {
	s.t.Helper()
	var out []byte
	s.until("the ledger of "+name, func() bool { return s.servers[name].LedgerComplete() == nil })
	for {
		part, err := s.servers[name].ReadLedger(uint64(len(out)))
		if err != nil {
			s.t.Fatal(err)
		}
		if len(part) == 0 {
			return out
		}
		out = append(out, part...)
	}
}

// sameLedger waits until the servers have one state, and holds that they have one ledger, which is the one that their state
// counts.
func (s *swarm) sameLedger(names ...string) []byte {
	s.t.Helper()
	s.converged(names...)
	want := s.whole(names[0])
	head := ledger.Head{}
	for rest := want; len(rest) > 0; {
		line, more, ok := ledger.CutLine(rest)
		if !ok {
			s.t.Fatal("the ledger ends within a record")
		}
		var err error
		if head, err = ledger.Follow(head, line); err != nil {
			s.t.Fatal(err)
		}
		rest = more
	}
	if got := s.servers[names[0]].View().LedgerHead(); got != head {
		s.t.Fatalf("the state counts %+v, the ledger has %+v", got, head)
	}
	for _, name := range names[1:] {
		if got := s.whole(name); !bytes.Equal(got, want) {
			s.t.Errorf("%s has another ledger than %s: %d bytes, not %d", name, names[0], len(got), len(want))
		}
	}
	return want
}

func TestLedgerIsTheSameEverywhereAndSurvivesRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		s.record("b", firstBundle())
		s.fill("c", "sl", 5)
		before := s.sameLedger(three...)
		s.restart(three...)
		s.leader(three...)
		s.fill("a", "late", 3)
		after := s.sameLedger(three...)
		if !bytes.HasPrefix(after, before) || bytes.Count(after, []byte("\n")) != 2+5+3 {
			t.Errorf("the ledger after the restart is no continuation:\n%s", after)
		}
	})
}

func TestTornRecordIsCutOffAndWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		s.record("a", firstBundle())
		s.fill("a", "sl", 4)
		want := s.sameLedger(three...)
		s.stop("b")
		if err := s.stores["b"].Ledger.Truncate(int64(len(want) - 10)); err != nil {
			t.Fatal(err)
		}
		s.start("b")
		s.leader(three...)
		if got := s.sameLedger("b", "a", "c"); !bytes.Equal(got, want) {
			t.Error("the torn record is not what it was")
		}
	})
}

func TestWrongRecordStopsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a")
		s.record("a", firstBundle())
		s.fill("a", "sl", 4)
		want := s.sameLedger("a")
		cfg := s.config("a")
		s.stop("a")
		forged := bytes.Replace(want, []byte("sl-1"), []byte("sl-9"), 1)
		if _, err := s.stores["a"].Ledger.WriteAt(forged, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := consensus.Open(cfg); err == nil || !strings.Contains(err.Error(), "record 5 ") || !strings.Contains(err.Error(), "restore it from a backup") {
			t.Errorf("a forged ledger opens with %v", err)
		}
	})
}

// TestLedgerOfAnotherHistoryStopsTheServer: the chain is whole, but it is not what the log says.
// It runs in real time: raft forgets a barrier that waits behind the entry that stops the server, and a bubble does not end
// while its waiter lives.
func TestLedgerOfAnotherHistoryStopsTheServer(t *testing.T) {
	s := newSwarm(t)
	s.form("a")
	s.record("a", firstBundle())
	s.fill("a", "sl", 2)
	s.stop("a")
	line, _, err := ledger.Append(ledger.Head{}, 1, ledger.Swarm{SwarmID: "another"})
	if err != nil {
		t.Fatal(err)
	}
	other := ledgerfile.NewInmem()
	if _, err := other.WriteAt(line, 0); err != nil {
		t.Fatal(err)
	}
	s.stores["a"].Ledger = other
	sv := s.start("a")
	delete(s.servers, "a")
	defer sv.cancel()
	if err := <-sv.done; err == nil || !strings.Contains(err.Error(), "record 1 is not what the log says") {
		t.Errorf("run ended with %v", err)
	}
}

func compact() consensus.Timing {
	return consensus.Timing{SnapshotAfter: 8, Trailing: 2, SnapshotEvery: time.Second}
}

// cutLog fills the ledger until the log's beginning is gone.
func (s *swarm) cutLog(name string) {
	s.t.Helper()
	s.record(name, firstBundle())
	s.fill(name, "sl", 30)
	s.until("the log's head to be cut", func() bool {
		first, err := s.stores[name].Log.FirstIndex()
		return err == nil && first > 10
	})
}

func TestJoinerFetchesTheLedgerBeforeItVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.timing = compact()
		s.form("a", "b")
		s.cutLog("a")
		s.cutLog("b")
		s.join("c", "b")
		s.until("it to vote", func() bool {
			for _, sv := range s.leader("a", "b", "c").Servers() {
				if sv.Name == "c" && sv.Voter {
					if err := s.servers["c"].LedgerComplete(); err != nil {
						t.Errorf("it votes: %v", err)
					}
					return true
				}
			}
			return false
		})
		s.sameLedger(three...)
	})
}

// TestJoinerTakesNoForgedLedger: one of two servers has another history in its file; the joiner takes the other's.
func TestJoinerTakesNoForgedLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.timing = compact()
		s.form("a", "b")
		s.cutLog("a")
		s.cutLog("b")
		want := s.sameLedger("a", "b")
		line, _, err := ledger.Append(ledger.Head{}, 1, ledger.Swarm{SwarmID: "another"})
		if err != nil {
			t.Fatal(err)
		}
		first, rest, _ := ledger.CutLine(want)
		forged := append(bytes.Repeat([]byte("x"), len(first)-1), '\n')
		copy(forged, line)
		if _, err := s.stores["a"].Ledger.WriteAt(append(forged, rest...), 0); err != nil {
			t.Fatal(err)
		}
		s.join("c", "b")
		if got := s.whole("c"); !bytes.Equal(got, want) {
			t.Errorf("it took %d bytes that the state does not prove", len(got))
		}
	})
}

// TestJoinerIsNotHeldUpByAForgedLedger: one of two servers gives a whole history of its own, which fits together and takes
// more than one answer.
func TestJoinerIsNotHeldUpByAForgedLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.timing = compact()
		s.form("a", "b")
		s.record("a", firstBundle())
		for i := range 70 {
			c := proven(fmt.Sprintf("sl-%d", i))
			c.Chain = [][]byte{bytes.Repeat([]byte{1}, state.MaxChainBytes)}
			s.record("a", c)
		}
		s.cutLog("a")
		s.cutLog("b")
		want := s.sameLedger("a", "b")
		for _, name := range []string{"a", "b"} { // whichever is asked first
			rogue := s.stores[name].Ledger
			if _, err := rogue.WriteAt(rechained(t, want), 0); err != nil {
				t.Fatal(err)
			}
			s.join("c-"+name, "a")
			if got := s.whole("c-" + name); !bytes.Equal(got, want) {
				t.Errorf("it took %d bytes that the state does not prove", len(got))
			}
			if _, err := rogue.WriteAt(want, 0); err != nil {
				t.Fatal(err)
			}
			s.stop("c-" + name)
		}
	})
}

// rechained is a ledger that says of each record that it was made later, and fits together.
func rechained(t *testing.T, b []byte) (out []byte) {
	t.Helper()
	var head ledger.Head
	for line, rest, ok := ledger.CutLine(b); ok; line, rest, ok = ledger.CutLine(rest) {
		r, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if line, head, err = ledger.Append(head, r.AtMS^1, body); err != nil {
			t.Fatal(err)
		}
		out = append(out, line...)
	}
	if len(out) != len(b) {
		t.Fatalf("%d bytes, not %d", len(out), len(b))
	}
	return out
}

func TestMissingLedgerDoesNotVoteNorAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.timing = compact()
		s.form("a")
		s.cutLog("a")
		// The only copy is lost: nobody has the records any more.
		s.stop("a")
		s.stores["a"].Ledger = ledgerfile.NewInmem()
		sv := s.start("a")
		delete(s.servers, "a")
		defer sv.cancel()
		if _, err := sv.ReadLedger(0); err == nil {
			t.Error("an incomplete ledger is given out")
		}
		if err := <-sv.done; err == nil || !strings.Contains(err.Error(), "no other SN to fetch the rest from") {
			t.Errorf("run ended with %v", err)
		}
	})
}

func TestRemovedServerRejoinsWithTheWholeLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.timing = compact()
		four := []string{"a", "b", "c", "d"}
		s.form(four...)
		s.record("a", firstBundle())
		s.fill("a", "sl", 3)
		s.sameLedger(four...)
		s.net.Cut("idd")
		s.until("it to be removed", func() bool { return !s.member("a", "d") })
		s.fill("a", "more", 30)
		s.until("the log's head to be cut", func() bool {
			first, err := s.stores["a"].Log.FirstIndex()
			return err == nil && first > 30
		})
		s.net.Heal("idd")
		s.until("it to be back", func() bool { return s.member("a", "d") })
		s.sameLedger(four...)
	})
}

func TestReadLedgerAtOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a")
		a := s.servers["a"]
		if part, err := a.ReadLedger(0); err != nil || len(part) != 0 {
			t.Errorf("an empty ledger reads as %q, %v", part, err)
		}
		s.record("a", firstBundle())
		all := s.whole("a")
		first, rest, _ := ledger.CutLine(all)
		if part, err := a.ReadLedger(uint64(len(first))); err != nil || !bytes.Equal(part, rest) {
			t.Errorf("got %q, %v", part, err)
		}
		for _, bad := range []uint64{1, uint64(len(all)) + 1, 1 << 63} {
			if _, err := a.ReadLedger(bad); !errors.Is(err, consensus.ErrOffset) {
				t.Errorf("offset %d: %v, want ErrOffset", bad, err)
			}
		}
	})
}

// TestLedgerOnDisk goes through the file that auditors copy.
func TestLedgerOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := newSwarm(t)
	cfg := s.config("a")
	cfg.Stores, cfg.Dir = nil, dir
	s.startWith(cfg)
	if err := s.servers["a"].Bootstrap(s.within(10*time.Second), state.InitSwarm{SwarmID: "swarm1", AtMS: 1}, firstBundle(), register("a")); err != nil {
		t.Fatal(err)
	}
	s.fill("a", "sl", 3)
	s.stop("a")
	file := filepath.Join(dir, ledgerfile.Name)
	want, err := os.ReadFile(file)
	if err != nil || bytes.Count(want, []byte("\n")) != 5 {
		t.Fatalf("the file has %d bytes, %v", len(want), err)
	}
	if err := os.WriteFile(file, append(want, `{"v":1,"seq":6,"pr`...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.startWith(cfg)
	s.fill("a", "more", 1)
	s.stop("a")
	got, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(got, want) || bytes.Count(got, []byte("\n")) != 6 {
		t.Errorf("after a torn write the file is %v:\n%s", err, got)
	}
}

// TestJoinsDoNotWaitForEachOther: a server that is slow to be let in holds up nobody else.
func TestJoinsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a")
		release := consensus.HoldConfiguration(s.servers["a"].Group)
		b := s.start("b")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		_, err := consensus.AskJoin(ctx, b.Group, address("a"), joinRequest("b"))
		if err == nil || !strings.Contains(err.Error(), "ask again") || time.Since(began) > 2*time.Second {
			t.Errorf("a busy leader answers %v after %v", err, time.Since(began))
		}
		release()
		if err := b.Join(s.within(30*time.Second), []string{address("a")}, joinRequest("b")); err != nil {
			t.Error(err)
		}
	})
}

// TestOldLeadersProposalsComeLate: what a leader judged by itself stays its own when it is none any more.
func TestOldLeadersProposalsComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		s.propose("a", "sl-0")
		old := s.leader(three...)
		s.net.Cut("id" + old.name)
		s.until("it to step down", func() bool { return !old.IsLeader() })
		rest := others(three, old.name)
		s.leader(rest...)
		s.net.Heal("id" + old.name)
		s.leader(three...)
		if s.leader(three...).name == old.name {
			t.Fatal("it leads again")
		}
		dead := state.SetLive{Node: "sl-0", Live: false, AtMS: 2}
		if _, err := old.ProposeAsLeader(s.within(10*time.Second), dead); !errors.Is(err, consensus.ErrNotLeader) {
			t.Errorf("a deposed leader's proposal: %v, want ErrNotLeader", err)
		}
		s.converged(three...)
		if !old.View().Nodes["sl-0"].Live {
			t.Error("the stale word was committed")
		}
		if _, err := s.leader(three...).ProposeAsLeader(s.within(10*time.Second), dead); err != nil {
			t.Error(err)
		}
	})
}
