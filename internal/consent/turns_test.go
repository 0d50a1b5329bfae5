package consent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
)

// TestOthersDoNotWaitForThePolicy: while one assignment is judged, as by a path that does not answer, others are decided on, and end. What
// ends meanwhile is not allowed by what was judged before.
func TestOthersDoNotWaitForThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := w.guard()
		slow, q := w.assigned(request(), ann), request()
		q.ID = "8"
		other := w.assigned(q, ann)
		if got := g.Ask(t.Context(), slow, pull()); got.Decision != consent.Allowed {
			t.Fatal(got)
		}
		w.policy.judging = func(id string) {
			if id == slow.ID {
				time.Sleep(time.Hour)
			}
		}
		asked, stays := make(chan consent.Answer), make(chan consent.Answer)
		go func() { asked <- g.Ask(t.Context(), slow, pull()) }()
		go func() { stays <- g.Stays(t.Context(), slow, pull()) }()
		synctest.Wait()
		began := time.Now()
		if got := g.Ask(t.Context(), other, pull()); got.Decision != consent.Allowed {
			t.Errorf("another: %+v", got)
		}
		if got := g.Stays(t.Context(), other, pull()); got.Decision != consent.Allowed {
			t.Errorf("another that runs: %+v", got)
		}
		for _, id := range []string{slow.ID, other.ID} {
			if err := g.Ended(id, 1, "done"); err != nil {
				t.Error(err)
			}
		}
		if time.Since(began) > 0 {
			t.Errorf("others waited for %v", time.Since(began))
		}
		if got := <-asked; got.Decision != consent.Refused || !strings.Contains(got.Words, "does nothing twice") {
			t.Errorf("what has ended while it was judged: %+v", got)
		}
		if got := <-stays; got.Decision != consent.Refused {
			t.Errorf("what has ended while it was judged stays: %+v", got)
		}
	})
}

// TestWhatNobodyCanSayNow: an assignment waits, which the log has once with all that is known of it, and the swarm with less. An operator's
// refusal counts in any case, and what runs goes on, and is asked about again.
func TestWhatNobodyCanSayNow(t *testing.T) {
	synctest.Test(t, whatNobodyCanSay)
}

func whatNobodyCanSay(t *testing.T) {
	later := consent.Verdict{Decision: consent.Later, Sentence: "nobody can look", Detail: "stat /mnt/secret: stale"}
	w := newWorld(t)
	g, h := w.guard(), w.assigned(request(), ann)
	w.policy.Verdict = later
	for range 3 {
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked || got.Words != "waits: nobody can look" {
			t.Errorf("%+v", got)
		}
		time.Sleep(10 * time.Second)
	}
	if n := strings.Count(w.log.String(), "stat /mnt/secret: stale"); n != 1 {
		t.Errorf("the log has it %d times:\n%s", n, w.log)
	}
	received := time.Now().Add(-30 * time.Second)
	time.Sleep(50 * time.Minute) // what proves who asked for it is valid no more
	g = w.guard()
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked || !g.Received(h.ID).Equal(received) {
		t.Errorf("after a restart: %+v, received at %v, want %v", got, g.Received(h.ID), received)
	}
	time.Sleep(20 * time.Minute)
	w.policy.Verdict = consent.Verdict{Decision: consent.Allowed, Sentence: "Allow all"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := g.Ask(ended, h, pull()); got.Decision != consent.Asked {
		t.Errorf("by a host that stops: %+v", got)
	}
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
		t.Fatalf("once it is known: %+v", got)
	}
	w.policy.Verdict = later
	g = w.guard()
	for _, lasts := range []bool{false, false, true, true} { // what was consented to does not end since somebody is to mend the host
		w.policy.Lasts = lasts
		if got := g.Stays(t.Context(), h, pull()); got.Decision != consent.Later {
			t.Errorf("what runs: %+v", got)
		}
		time.Sleep(time.Hour)
	}
	if n := strings.Count(w.log.String(), "goes on: whether it may nobody can say"); n != 2 {
		t.Errorf("the log has it %d times:\n%s", n, w.log)
	}
	w.policy.Verdict = consent.Verdict{Decision: consent.Allowed}
	if got := g.Stays(t.Context(), h, pull()); got.Decision != consent.Allowed || !strings.Contains(w.log.String(), "may go on") {
		t.Errorf("what runs, once somebody can say: %+v", got)
	}
	w.policy.Verdict = later
	h.Approvals = []task.Approval{w.says(bob, "RefuseTask", refusal(""))}
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "refused by spiffe://a.example"+bob) {
		t.Errorf("refused by an operator: %+v", got)
	}
}
