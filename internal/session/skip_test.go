package session_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

func TestASkippedRoundIsAnsweredWithoutAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, s := start(t, w)
		copy(s.local.b, "12345678")
		skip := func(seq, number uint64, digest string) {
			t.Helper()
			got := syncCall(t, e, id, seq)
			w.update(func(v *round.View) { v.Sessions[0].SkippedSeq = seq })
			a := <-got
			if a.err != nil || !a.r.Skipped || a.r.Contributed || a.r.Round != number || a.r.Digest != digest || a.r.Interval != 4 {
				t.Fatalf("got %+v, %v", a.r, a.err)
			}
			if again, err := e.Sync(t.Context(), id, seq, 1); err != nil || again != a.r {
				t.Fatalf("repeated Sync: got %+v, %v; want the same answer", again, err)
			}
		}
		skip(1, 0, "") // before there is any model
		got := syncCall(t, e, id, 2)
		if r := w.said().Ready; r.Seq != 2 || r.BaseRound != 0 {
			t.Fatalf("offers %v, want Sync 2 from no model", r)
		}
		w.update(func(v *round.View) { plan(v, 1, 2, 2) })
		synctest.Wait()
		digest := w.said().Done.ModelDigest
		w.update(func(v *round.View) {
			commit(v, 1, 2, digest)
			v.Committed.Attempt = 2
		})
		if a := <-got; a.err != nil || a.r.Skipped || a.r.Round != 1 || !a.r.Contributed {
			t.Fatalf("after a skip: got %+v, %v", a.r, a.err)
		}
		skip(3, 1, digest) // with one
	})
}

// TestASkipWaitsForTheAttemptToEnd: the program writes its weights as soon as it is answered.
func TestASkipWaitsForTheAttemptToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		merging := make(chan struct{})
		w.mergeFn = func(ctx context.Context, _ session.Job) (*round.Done, *round.Failed) {
			<-ctx.Done()
			<-merging
			return nil, nil
		}
		e, id, _ := start(t, w)
		got := syncCall(t, e, id, 1)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		synctest.Wait()
		w.update(func(v *round.View) { v.Plan, v.Sessions[0].SkippedSeq = nil, 1 })
		synctest.Wait()
		select {
		case a := <-got:
			t.Fatalf("answered while the exchange reads the weights: %+v, %v", a.r, a.err)
		default:
		}
		close(merging)
		if a := <-got; a.err != nil || !a.r.Skipped {
			t.Fatalf("got %+v, %v", a.r, a.err)
		}
	})
}

// TestANewerModelIsBetterThanASkip: a node that was away learns of a skip and of a round that was committed since.
func TestANewerModelIsBetterThanASkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		got := syncCall(t, e, id, 1)
		digest := digestOf([]byte("abcdefgh"))
		w.models[digest] = []byte("abcdefgh")
		w.update(func(v *round.View) {
			v.Sessions[0].SkippedSeq = 1
			commit(v, 1, 0, digest)
		})
		if a := <-got; a.err != nil || a.r.Skipped || a.r.Round != 1 || a.r.Contributed {
			t.Fatalf("got %+v, %v", a.r, a.err)
		}
	})
}

// owned plans an attempt in which this node contributes and others own all leaves of a model of one leaf, or of more.
func (w *swarm) owned(attempt, seq uint64, owners ...string) {
	w.update(func(v *round.View) {
		v.Plan = &round.Plan{Run: 1, Round: v.Committed.Round + 1, Attempt: attempt, Participants: []*round.Participant{
			{Session: v.Sessions[0].ID, Node: "me", PeerID: "me", Seq: seq, Weight: 1},
		}}
		for i, o := range owners {
			v.Plan.Participants = append(v.Plan.Participants, &round.Participant{Node: o, PeerID: o, Shards: []state.LeafRun{{First: uint64(i), Leaves: 1}}, Weight: 1})
		}
	})
	synctest.Wait()
}

// TestNoThirdOwner: whatever is planned, by whichever SN, a leaf of one contribution goes to two owners at most. A new Sync is a
// new contribution; what a closed session has frozen is not.
func TestNoThirdOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
			return nil, &round.Failed{Round: job.Plan.Round, Attempt: job.Plan.Attempt, Reason: "no byte came"}
		}
		e, id, _ := start(t, w)
		begins := func(what string, want bool) {
			t.Helper()
			w.mu.Lock()
			began := w.merges > 0
			w.merges = 0
			w.mu.Unlock()
			if began != want {
				t.Fatalf("%s: began is %v", what, began)
			}
			if f := w.said().Failed; (f != nil && f.Code == "THIRD_OWNER") == want {
				t.Errorf("%s: reports %+v", what, f)
			}
		}
		_ = syncCall(t, e, id, 1)
		w.owned(1, 1, "a", "b")
		begins("the first owners", true)
		w.owned(2, 1, "c", "b")
		begins("a second owner of leaf 0", true)
		w.owned(3, 1, "a", "d")
		begins("a second owner of leaf 1", true)
		w.owned(4, 1, "b", "b")
		begins("a third owner of leaf 0", false)
		w.owned(5, 1, "a", "b")
		begins("the first ones again", true)
		w.owned(6, 1, "c", "d")
		begins("the second ones again", true)
		w.update(func(v *round.View) { v.Plan, v.Sessions[0].SkippedSeq = nil, 1 })
		synctest.Wait()
		_ = syncCall(t, e, id, 2)
		w.owned(7, 2, "e", "f")
		begins("what is offered anew", true)
		w.owned(8, 2, "g", "f")
		begins("a second owner of it", true)
		w.update(func(v *round.View) { v.Plan, v.Sessions[0].SkippedSeq = nil, 2 })
		synctest.Wait()
		go func() { _, _ = e.Close(t.Context(), id, "snapshot") }()
		synctest.Wait()
		w.owned(9, 2, "h", "f")
		begins("a third owner of what is frozen", false)
		w.owned(10, 2, "e", "f")
		begins("its first owners", true)
	})
}

// TestNoThirdOwnerAfterARestart: the record says to whom leaves went before they go.
func TestNoThirdOwnerAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, path := newSwarm(), filepath.Join(t.TempDir(), "session.json")
		files, _ := newSlots(8)
		log := slog.New(slog.DiscardHandler)
		var recorded *session.Saved // when an attempt begins
		w.mergeFn = func(ctx context.Context, _ session.Job) (*round.Done, *round.Failed) {
			recorded = session.OpenJournal(path, log).Record().Session
			<-ctx.Done()
			return nil, nil
		}
		live := func(r *session.Saved) (*session.Engine, func()) {
			e := session.New(session.Config{
				Peer: "me", Control: w, Explainer: w, Exchange: w, Log: log, Journal: session.OpenJournal(path, log),
				NewSlots:  func(int64) (models.Slots, error) { return files, nil },
				OpenSlots: func(int64, string, string) (models.Slots, error) { return files, nil },
			})
			if r != nil {
				e.Resume(r)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- e.Run(ctx) }()
			synctest.Wait()
			return e, func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		e, end := live(nil)
		layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{2}}})
		if err != nil {
			t.Fatal(err)
		}
		opened, err := e.Open(t.Context(), round.Open{Contract: "c", Terms: round.Terms{MinPeers: 1}, SyncFrequency: 4, CheckinMode: "snapshot", Weight: 1}, layout)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = e.Sync(t.Context(), opened.Session, 1, 1) }()
		synctest.Wait()
		w.owned(1, 1, "a")
		w.owned(2, 1, "b")
		end()
		if recorded == nil || recorded.Sent == nil || len(recorded.Sent.Runs) != 1 || len(recorded.Sent.Runs[0].To) != 2 {
			t.Fatalf("when the second attempt began the record was %+v", recorded)
		}
		w.merges = 0
		w.update(func(v *round.View) { v.Plan = nil })
		_, end = live(session.OpenJournal(path, log).Record().Session)
		w.owned(3, 1, "c")
		if code := w.said().Failed.Code; code != "THIRD_OWNER" || w.merges != 0 {
			t.Errorf("after the restart %d attempts began, the code is %q", w.merges, code)
		}
		w.owned(4, 1, "a")
		if w.merges != 1 {
			t.Error("the first owner gets nothing any more")
		}
		end()
	})
}
