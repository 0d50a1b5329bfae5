package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
)

// TestBelowMinPeers: the session fails after the node's timeout, counted anew when the peers come back in between.
func TestBelowMinPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.timeouts = session.Timeouts{MinPeers: time.Minute}
		e, id, _ := start(t, w)
		w.update(func(v *round.View) { v.Terms = round.Terms{MinPeers: 2} })
		got := syncCall(t, e, id, 1)
		live := func(is bool) { w.update(func(v *round.View) { v.Sessions[1].Live = is }) }
		for range 3 {
			live(false)
			time.Sleep(59 * time.Second)
			live(true)
			time.Sleep(time.Hour)
		}
		select {
		case a := <-got:
			t.Fatalf("failed although the peers came back: %v", a.err)
		default:
		}
		live(false)
		w.update(func(v *round.View) { v.Halt = &state.Halt{By: "an operator", AtMS: 1} })
		time.Sleep(time.Hour) // paused: nothing counts
		w.update(func(v *round.View) { v.Halt = nil })
		began := time.Now()
		a := <-got
		var refusal *session.Error
		if !errors.As(a.err, &refusal) || refusal.Code != "BELOW_MIN_PEERS" || !strings.Contains(refusal.Message, "for 1m0s: 1 of 2 were there") {
			t.Fatalf("got %v", a.err)
		}
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("waited %s", waited)
		}
		synctest.Wait()
		if !strings.Contains(w.told(), "fewer than minPeers") {
			t.Errorf("the contract was told %q", w.told())
		}
	})
}

// TestTimeoutsAreAsked: what the node wants is in its request; without a limit it waits for ever, and none counts once
// training is over.
func TestTimeoutsAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.timeouts = session.Timeouts{QuorumWait: 1500 * time.Millisecond, StallGrace: time.Minute, NoShard: true}
		e, id, _ := start(t, w)
		if o := w.opened; o.QuorumWaitMS != 1500 || o.StallGraceMS != 60_000 || !o.NoShard {
			t.Errorf("asked for %v", o)
		}
		w.update(func(v *round.View) {
			v.Terms = round.Terms{MinPeers: 2}
			v.Sessions[1].Live = false
		})
		got := syncCall(t, e, id, 1)
		select {
		case a := <-got:
			t.Fatalf("gave up: %v", a.err)
		case <-time.After(6 * time.Hour):
		}
	})
}

// TestAbortBecauseOfNaN: the reason has the words by which a contract's rules know it, and it stands in the log of this node, which may
// have no program of its own whose end it could tell.
func TestAbortBecauseOfNaN(t *testing.T) {
	for said, want := range map[string]string{
		`NotFiniteError: tensor "w" has NaN`: `failed: not finite: tensor "w" has NaN`,
		"out of memory":                      "failed: out of memory",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newSwarm()
			e, id, _ := start(t, w)
			if err := e.Abort(t.Context(), id, said); err != nil {
				t.Fatal(err)
			}
			if w.told() != want {
				t.Errorf("told %q, want %q", w.told(), want)
			}
			synctest.Wait()
			if line := fmt.Sprintf("msg=\"the program gave its session up\" contract=c session=%s reason=%q\n", id, want); !strings.Contains(w.log.String(), line) {
				t.Errorf("logs %s, want %s", w.log.String(), line)
			}
		})
	}
}
