package session_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/session"
)

// TestCloseOutlivesAnOutage: that no SN answers within one long poll is no reason to tell the program that it failed.
func TestCloseOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		got := syncCall(t, e, id, 1)
		digest := w.said().Done.ModelDigest
		w.update(func(v *round.View) { commit(v, 1, 1, digest) })
		<-got
		w.mu.Lock()
		w.closeFn = func(ctx context.Context) error {
			<-ctx.Done()
			return &session.Error{Code: "UNREACHABLE", Message: "cannot reach SN", Help: "check it"}
		}
		w.mu.Unlock()
		poll, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := e.Close(poll, id, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want that the program asks again", err)
		}
		w.mu.Lock()
		w.closeFn = nil
		w.mu.Unlock()
		w.update(func(v *round.View) { v.Over = true })
		if r, err := e.Close(t.Context(), id, ""); err != nil || r.Round != 1 {
			t.Fatalf("after the outage: got %+v, %v", r, err)
		}
	})
}

// TestLaggingViewIsDropped: an SN that lags shows the run or the round before.
func TestLaggingViewIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.view.Run, w.view.Index = 2, 7
		e, id, _ := start(t, w)
		w.update(func(v *round.View) { v.Run, v.Sessions = 1, nil; v.Index = 3 })
		synctest.Wait()
		if o, err := e.Outcome(); o != session.Open {
			t.Fatalf("an old view ended the session: %v, %v", o, err)
		}
		got := syncCall(t, e, id, 1)
		newest := func(v *round.View) {
			v.Run, v.Index = 2, 20
			v.Sessions = []*round.Session{{ID: id, Node: "me", Live: true, State: "open"}, {ID: "other", Node: "other", Live: true}}
		}
		model, older := []byte("round 02"), []byte("round 01")
		w.mu.Lock()
		w.models[digestOf(model)], w.models[digestOf(older)] = model, older
		w.mu.Unlock()
		w.update(func(v *round.View) { newest(v); commit(v, 2, 0, digestOf(model)) })
		if a := <-got; a.err != nil || a.r.Round != 2 {
			t.Fatalf("got %+v, %v", a.r, a.err)
		}
		syncCall(t, e, id, 2)
		w.update(func(v *round.View) { commit(v, 1, 0, digestOf(older)); v.Index = 10 })
		synctest.Wait()
		if st := e.Status(); st["round"] != uint64(2) {
			t.Fatalf("went back to round %v", st["round"])
		}
	})
}

// TestLingerTellsTheContract: a node that leaves first cuts off the call that ends its session.
func TestLingerTellsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.endFn = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * time.Second):
				return nil
			}
		}
		e, id, _ := start(t, w)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		got := syncCall(t, e, id, 1)
		digest := w.said().Done.ModelDigest
		w.update(func(v *round.View) {
			commit(v, 1, 1, digest)
			v.Over, v.Sessions[1].State = true, "ended"
		})
		<-got
		if _, err := e.Close(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
		if err := e.Linger(t.Context()); err != nil || w.told() != "finished" {
			t.Fatalf("left with %v, the contract heard %q", err, w.told())
		}
	})
}

// TestEndReasonIsCutBetweenCharacters: what is no UTF-8 can not be sent, and the session would stay open.
func TestEndReasonIsCutBetweenCharacters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, _, _ := start(t, w)
		if err := e.ProgramExited(t.Context(), 1, "x"+strings.Repeat("é", 4096)); err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(w.told()) || len(w.told()) < 4000 {
			t.Fatalf("the contract was told %d bytes, valid %t", len(w.told()), utf8.ValidString(w.told()))
		}
		if _, err := proto.Marshal(onwire.End(round.End{Reason: w.told()})); err != nil {
			t.Fatal(err)
		}
	})
}

// TestALieAboutTheIndexIsForgotten: what one SN says must not make a node deaf to the others, in this run or the next.
func TestALieAboutTheIndexIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		honest := func() uint64 { return w.view.Index }()
		w.update(func(v *round.View) { v.Index = math.MaxUint64 - 1 })
		synctest.Wait()
		// Another SN's; the client has found that the first one's is confirmed by nobody.
		w.update(func(v *round.View) { v.Index = honest; plan(v, 1, 1, 1) })
		got := syncCall(t, e, id, 1)
		if w.said().Done == nil {
			t.Fatal("the node hears no other SN any more")
		}
		w.update(func(v *round.View) { commit(v, 1, 1, w.report.Done.ModelDigest) })
		if a := <-got; a.err != nil || a.r.Round != 1 {
			t.Fatalf("got %+v, %v", a.r, a.err)
		}
	})
}

// TestALieAboutALostModelIsForgotten: a round that was never committed, with no model, is no reason to wait for its end.
func TestALieAboutALostModelIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		w.update(func(v *round.View) { v.Committed = state.CommittedRound{Round: math.MaxUint64 - 1} })
		got := syncCall(t, e, id, 1)
		model := []byte("round 02")
		w.mu.Lock()
		w.models[digestOf(model)] = model
		w.mu.Unlock()
		w.update(func(v *round.View) { commit(v, 2, 0, digestOf(model)) })
		select {
		case a := <-got:
			if a.err != nil || a.r.Round != 2 {
				t.Fatalf("got %+v, %v", a.r, a.err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the program waits for a round beyond the one that was made up")
		}
	})
}
