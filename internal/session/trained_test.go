package session_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
)

// taking is the answer of an SN that takes what programs have trained, and warns of texts.
func taking(texts ...string) func(*round.Report) round.Answer {
	return func(r *round.Report) round.Answer {
		a := round.Answer{Leads: true, TakesTrained: true}
		if len(texts) > 0 && r.Session != "" {
			if a.WarningsDigest = texts[len(texts)-1]; a.WarningsDigest != r.WarningsSeen {
				a.Warnings = []round.Warnings{{Session: "another", Texts: []string{"not ours"}}, {Session: r.Session, Texts: texts}}
			}
		}
		return a
	}
}

func batches(n uint64) session.Counts {
	return session.Counts{Known: true, Batches: n, Samples: 32 * n, DataSamples: 96}
}

// TestWhatWasTrainedIsReported: the node finds by itself whether a contribution is the model merged last, and adds what the program counts.
func TestWhatWasTrainedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.answerFn = taking()
		e, id, s := start(t, w)
		hand := func(seq uint64, weights string, c session.Counts) {
			t.Helper()
			copy(s.local.b, weights)
			e.Count(id, c)
			got := syncCall(t, e, id, seq)
			w.round(seq)
			if a := <-got; a.err != nil || a.r.Round != seq {
				t.Fatalf("sync %d: %+v, %v", seq, a.r, a.err)
			}
		}
		said := func() round.Trained {
			t.Helper()
			synctest.Wait()
			if w.said().Trained == nil {
				return round.Trained{}
			}
			return *w.said().Trained
		}
		hand(1, "11111111", batches(0))
		if got := said(); got != (round.Trained{}) {
			t.Errorf("before any training: %+v", got)
		}
		hand(2, "11111112", batches(4))
		want := round.Trained{Seq: 2, Counted: true, Batches: 4, Samples: 128, TotalBatches: 4, TotalSamples: 128, DataSamples: 96, Changed: 1}
		if got := said(); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		hand(3, "11111112", batches(4)) // the merged model is what was handed in
		hand(4, "11111112", batches(4))
		want = round.Trained{
			Seq: 4, Counted: true, Batches: 4, Samples: 128, TotalBatches: 12, TotalSamples: 384, DataSamples: 96, Changed: 1, Unchanged: 2, UnchangedSince: 2,
		}
		if got := said(); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		hand(5, "99999999", session.Counts{})
		if got := said(); got.Counted || got.Unchanged != 0 || got.UnchangedSince != 0 || got.Changed != 2 || got.TotalBatches != 12 {
			t.Errorf("an older client: %+v", got)
		}
		e.Count(id, batches(0))
		closed := make(chan answer, 1)
		go func() {
			r, err := e.Close(t.Context(), id, "")
			closed <- answer{r, err}
		}()
		synctest.Wait()
		if got := said(); got.TotalSamples != 384 || !got.Ended || got.Seq != 5 || got.Batches != 0 || got.Unchanged != 0 || got.Changed != 2 || w.said().Ready == nil {
			t.Errorf("closed right after a merge: %+v", got)
		}
	})
}

// TestOlderLeadersAreToldNothingNew: they could not verify a signature over it.
func TestOlderLeadersAreToldNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		for seq := range uint64(3) {
			e.Count(id, batches(4))
			onceMore(t, w, e, id, seq+1)
		}
		if got := w.said(); got.Trained != nil || got.Ready == nil && got.Done == nil && got.Session == "" {
			t.Errorf("got %+v", got)
		}
	})
}

// TestWarningsGoWithOneAnswer: each is said once, however often that answer is asked for.
func TestWarningsGoWithOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.answerFn = taking("one")
		e, id, _ := start(t, w)
		onceMore(t, w, e, id, 1)
		for range 2 {
			if got := e.Warnings(id, 1, false); !slices.Equal(got, []string{"one"}) {
				t.Errorf("with the first answer: %q", got)
			}
		}
		if got := e.Warnings(id, 2, false); len(got) > 0 {
			t.Errorf("with the second answer: %q", got)
		}
		w.mu.Lock()
		w.answerFn = taking("one", "tw\x1bo")
		w.mu.Unlock()
		onceMore(t, w, e, id, 2)
		onceMore(t, w, e, id, 3)
		if got := e.Warnings(id, 3, true); !slices.Equal(got, []string{"tw o"}) {
			t.Errorf("with the final model: %q", got)
		}
		if got := e.Warnings("another", 3, true); len(got) > 0 {
			t.Errorf("to another session: %q", got)
		}
	})
}

// TestADigestThatNoSNTakesIsNotRepeated: the SN that leads next would refuse every report with it, and hold this node for dead.
func TestADigestThatNoSNTakesIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		start(t, w)
		for _, tt := range []struct {
			digest string
			seen   string
		}{
			{strings.Repeat("a", 64), strings.Repeat("a", 64)},
			{strings.Repeat("b", 128), strings.Repeat("b", 128)},
			{strings.Repeat("c", 129), ""},
			{strings.Repeat("d", 1<<20), ""},
			{strings.Repeat("e", 64), strings.Repeat("e", 64)},
		} {
			w.mu.Lock()
			w.answerFn = func(*round.Report) round.Answer {
				return round.Answer{Leads: true, TakesTrained: true, WarningsDigest: tt.digest}
			}
			w.mu.Unlock()
			time.Sleep(10 * time.Second) // some heartbeats
			synctest.Wait()
			if got := w.said().WarningsSeen; got != tt.seen {
				t.Errorf("of a digest of %d bytes %d are repeated: %.80q", len(tt.digest), len(got), got)
			}
		}
	})
}
