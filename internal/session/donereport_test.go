package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
)

// telling makes attempts come to all that can be said of one, and the leader ask for it if asks is set.
func telling(w *swarm, asks *bool) {
	w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
		return &round.Done{
			Round: job.Plan.Round, Attempt: job.Plan.Attempt, ModelDigest: "m", StateDigest: "s", ShardsDigest: "all", ShardDigests: []string{"a"},
			Signature: []byte{1}, Seals: [][]byte{{2}}, Claims: []round.Claim{{}}, UpdateSquares: []float64{1},
		}, nil
	}
	w.answerFn = func(r *round.Report) round.Answer {
		if r.Done == nil || !*asks {
			return round.Answer{}
		}
		return round.Answer{Asks: []round.Asked{{Session: r.Session, Run: 1, Round: r.Done.Round, Attempt: r.Done.Attempt}}}
	}
}

// isShort holds that a report says what everybody signs, and what the leader always needs, and no more.
func isShort(t *testing.T, d *round.Done) {
	t.Helper()
	if d == nil || len(d.ShardDigests)+len(d.Seals)+len(d.Claims) > 0 {
		t.Errorf("report says %v, want no more than was asked", d)
	}
	if d.ModelDigest != "m" || d.StateDigest != "s" || d.ShardsDigest != "all" || len(d.Signature) != 1 || len(d.UpdateSquares) != 1 {
		t.Errorf("report says %v, which lacks something", d)
	}
}

// TestAllIsSaidWhenAsked: and only of the attempt that was asked for, after a look at what owners have signed.
func TestAllIsSaidWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, asks := newSwarm(), false
		telling(w, &asks)
		e, id, _ := start(t, w)
		got := syncCall(t, e, id, 1)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		time.Sleep(3 * time.Second)
		isShort(t, w.said().Done)
		w.mu.Lock()
		asks = true
		w.mu.Unlock()
		for range 2 { // it is told until the attempt is decided
			time.Sleep(time.Second + time.Millisecond)
			if d := w.said().Done; len(d.ShardDigests) != 1 || len(d.Seals) != 1 || len(d.Claims) != 1 || w.verified != 1 {
				t.Errorf("a heartbeat after the question, and %d looks at seals, the report says %v", w.verified, d)
			}
		}
		w.mu.Lock()
		asks = false
		w.mu.Unlock()
		w.update(func(v *round.View) { plan(v, 1, 2, 1) })
		time.Sleep(3 * time.Second)
		isShort(t, w.said().Done)
		w.update(func(v *round.View) { v.Run = 2 })
		<-got
	})
}

// TestNobodyClaimsWhatNoOwnerSealed: a victim of a bad seal says that it could not go on with the owner.
func TestNobodyClaimsWhatNoOwnerSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, asks := newSwarm(), true
		telling(w, &asks)
		w.verifySealsFn = func(job session.Job) *round.Failed {
			return &round.Failed{Round: job.Plan.Round, Attempt: job.Plan.Attempt, Blamed: "other", Reason: "its node key has not signed its seal"}
		}
		e, id, _ := start(t, w)
		got := syncCall(t, e, id, 1)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		time.Sleep(3 * time.Second)
		if r := w.said(); r.Done != nil || r.Failed.Blamed != "other" {
			t.Errorf("report says %v", r)
		}
		w.update(func(v *round.View) { v.Run = 2 })
		<-got
	})
}

// TestWitnessesSayAllAtOnce: the plan asks for it.
func TestWitnessesSayAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, asks := newSwarm(), false
		telling(w, &asks)
		e, id, _ := start(t, w)
		got := syncCall(t, e, id, 1)
		w.update(func(v *round.View) { plan(v, 1, 1, 1); v.Plan.Witnesses = 2 })
		synctest.Wait()
		if d := w.said().Done; len(d.ShardDigests) != 1 || len(d.Claims) != 1 || w.verified != 0 {
			t.Errorf("report says %v", d)
		}
		w.update(func(v *round.View) { v.Run = 2 })
		<-got
	})
}

// TestAnSNThatAlwaysAsksForSignatures: it gets a report every second like any other, also if it claims to lead at once.
func TestAnSNThatAlwaysAsksForSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.answerFn = func(*round.Report) round.Answer { return round.Answer{Leads: true, Sign: true} }
		start(t, w)
		before := w.count()
		time.Sleep(time.Minute)
		if n := w.count() - before; n > 70 {
			t.Errorf("%d reports in a minute", n)
		}
	})
}

// TestOnlyWhatIsPassedOnIsSigned: nothing is as long as the SN that was told last leads. Who does not lead any more says so, and hears the
// same at once, signed.
func TestOnlyWhatIsPassedOnIsSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, leads, refused := newSwarm(), true, 0
		w.answerFn = func(r *round.Report) round.Answer {
			if r.Session != "" && !leads && len(r.Signature) == 0 {
				refused++
				return round.Answer{Sign: true}
			}
			return round.Answer{Leads: leads}
		}
		e, id, _ := start(t, w)
		time.Sleep(time.Minute)
		before := w.signs()
		got := syncCall(t, e, id, 1)
		if now := w.said(); now.Ready.Seq != 1 || now.Number != 2 || len(now.Signature) > 0 || w.signs() != before {
			t.Errorf("%d signatures after %d, to the SN that leads: report says %v", w.signs(), before, now)
		}
		w.mu.Lock()
		leads = false
		w.mu.Unlock()
		time.Sleep(time.Second + time.Millisecond)
		if now := w.said(); refused != 1 || now.Ready.Seq != 1 || now.Number != 2 || len(now.Signature) == 0 || w.signs() != before+1 {
			t.Errorf("%d signatures, %d reports refused: report says %v", w.signs(), refused, now)
		}
		time.Sleep(time.Minute)
		if refused != 1 || w.signs() != before+1 {
			t.Errorf("%d signatures after %d for what has not changed, %d reports refused", w.signs(), before, refused)
		}
		w.update(func(v *round.View) { v.Run = 2 })
		<-got
	})
}
