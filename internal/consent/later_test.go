package consent_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/consent"
)

// later is what nobody can say, and that passes or not.
func later(lasts bool) consent.Verdict {
	return consent.Verdict{Decision: consent.Later, Lasts: lasts, Sentence: "the engine does not say", Detail: "dial unix /run/secret.sock"}
}

// TestWhatDoesNotPassIsRefusedAtOnce, whether the image is not found or the policy can't be asked; the swarm gets to know what to do, and the
// host's log why. Once it is mended the next placement is judged anew.
func TestWhatDoesNotPassIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, fails := range map[string]func(w *world){
			"image":  func(w *world) { w.images.no = later(true) },
			"policy": func(w *world) { w.policy.Verdict = later(true) },
		} {
			w := newWorld(t)
			fails(w)
			g, h := w.guard(), w.assigned(request(), ann)
			for range 2 {
				if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || got.Words != "the engine does not say" {
					t.Errorf("%s: %+v", name, got)
				}
			}
			if n := strings.Count(w.log.String(), "/run/secret.sock"); n != 1 {
				t.Errorf("%s: the log has it %d times:\n%s", name, n, w.log)
			}
			w.images.no, w.policy.Verdict = consent.Verdict{}, consent.Verdict{Decision: consent.Allowed}
			h.Epoch = 2
			if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
				t.Errorf("%s: once it is mended: %+v", name, got)
			}
		}
	})
}

// TestNothingWaitsForEver: what might pass and does not for half an hour is refused, to each member, and in the next placement after another
// half an hour. What nobody could say once has no part in how long it waits the next time.
func TestNothingWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.asks()
		g, h := w.guard(), w.assigned(request(), ann)
		w.policy.Verdict = later(false)
		ask := func() consent.Answer { return g.Ask(t.Context(), h, pull()) }
		for range 25 * 60 / 2 {
			if got := ask(); got.Decision != consent.Asked {
				t.Fatalf("%+v", got)
			}
			time.Sleep(2 * time.Second)
		}
		w.policy.Verdict = consent.Verdict{Decision: consent.Asked, Sentence: "ask"}
		if got := ask(); got.Words != waits {
			t.Errorf("once somebody could say: %+v", got)
		}
		w.policy.Verdict = later(false)
		for epoch := uint32(1); epoch <= 2; epoch++ {
			began := time.Now()
			h.Epoch = epoch
			got := ask()
			for ; got.Decision == consent.Asked && time.Since(began) < time.Hour; got = ask() {
				time.Sleep(2 * time.Second)
			}
			if got.Decision != consent.Refused || got.Words != "waited 30m0s in vain: the engine does not say" || time.Since(began) != 30*time.Minute {
				t.Errorf("placement %d: %+v after %v", epoch, got, time.Since(began))
			}
			if got := ask(); got.Decision != consent.Refused {
				t.Errorf("another member: %+v", got)
			}
		}
	})
}

// TestWhatAnAssignmentGets is waited for no longer either.
func TestWhatAnAssignmentGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g, h := w.guard(), w.assigned(request(), ann)
		if got := g.Gets(h, later(true)); got.Decision != consent.Refused {
			t.Errorf("what lasts: %+v", got)
		}
		if got := g.Gets(h, consent.Verdict{Decision: consent.Allowed}); got.Decision != consent.Allowed {
			t.Errorf("%+v", got)
		}
		if got := g.Gets(h, consent.Verdict{Decision: consent.Refused, Sentence: "no", Detail: "/secret"}); got.Decision != consent.Refused || got.Words != "no" || !strings.Contains(w.log.String(), "/secret") {
			t.Errorf("%+v\n%s", got, w.log)
		}
		for since := time.Duration(0); since <= 30*time.Minute; since += time.Minute {
			want := consent.Asked
			if since == 30*time.Minute {
				want = consent.Refused
			}
			if got := g.Gets(h, later(false)); got.Decision != want {
				t.Errorf("after %v: %+v", since, got)
			}
			if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
				t.Errorf("after %v: %+v", since, got)
			}
			time.Sleep(time.Minute)
		}
	})
}
