package consent_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	owners "github.com/swarmd/swarmd/internal/policy"
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

// TestAnImageThatMayBeKnownSoon is waited for: for five minutes where somebody is asked then, who is told that its digest is unknown, and
// for half an hour where the task is refused without it. An approval before waits as long, and what was decided stands, also after a restart.
func TestAnImageThatMayBeKnownSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for decided, limit := range map[consent.Decision]time.Duration{consent.Asked: 5 * time.Minute, consent.Refused: 30 * time.Minute} {
			w := newWorld(t)
			unknown := true
			w.images.now = func() (*owners.Image, error) {
				if unknown {
					return owners.UnknownYet("a:1", "the registry is away"), nil
				}
				return owners.NewImage("a:1", digestOf(1))
			}
			w.policy.soon = func(image *owners.Image) consent.Verdict {
				if image.Passes {
					return consent.Verdict{Decision: decided, Sentence: "p.yaml:1", Soon: "image " + image.String()}
				}
				return consent.Verdict{Decision: consent.Asked, Sentence: "p.yaml:1"}
			}
			g, h := w.guard(), w.assigned(request(), ann)
			ask := func() consent.Answer { return g.Ask(t.Context(), h, pull()) }
			began, got := time.Now(), ask()
			for ; got.Words == "waits: image a:1 is not known by any digest yet: the registry is away"; got = ask() {
				time.Sleep(1300 * time.Millisecond)
			}
			if took := time.Since(began); got.Decision != decided || took < limit || took > limit+2*time.Second || w.images.found < int(limit/(12*time.Second)) {
				t.Errorf("%s: %+v after %v, looked for %d times", decided, got, took, w.images.found)
			}
			unknown = false
			time.Sleep(time.Minute)
			found := w.images.found
			if decided == consent.Refused {
				h.Epoch = 2
				if got := ask(); !strings.HasSuffix(got.Words, "; image "+digestOf(1)+" (a:1)") {
					t.Errorf("once it is known: %+v", got)
				}
				continue
			}
			for range 2 {
				if got := ask(); got.Words != waits+"; the digest of image a:1 is unknown: whatever the name stands for then is fetched: the registry is away" {
					t.Errorf("%+v", got)
				}
				g = w.guard()
			}
			if w.images.found != found {
				t.Error("who is asked is shown another image than was asked about")
			}
			h.Approvals = []task.Approval{w.says(bob, "ApproveTask", word())}
			if got := ask(); got.Decision != consent.Allowed || got.Image == nil || got.Image.Name != "a:1" || got.Image.Unknown == "" {
				t.Errorf("approved: %+v", got)
			}
		}
	})
}

// TestAnImageThatIsKnownInTime: nobody is asked without it.
func TestAnImageThatIsKnownInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.images.now = func() (*owners.Image, error) { return owners.UnknownYet("a:1", "the registry is away"), nil }
		w.policy.soon = func(image *owners.Image) consent.Verdict {
			v := consent.Verdict{Decision: consent.Asked, Sentence: "ask"}
			if image.Passes {
				v.Soon = "image " + image.String()
			}
			return v
		}
		g, h := w.guard(), w.assigned(request(), ann)
		h.Approvals = []task.Approval{w.says(bob, "ApproveTask", word())}
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked || !strings.HasPrefix(got.Words, "waits: image a:1") {
			t.Errorf("approved before: %+v", got)
		}
		w.moves()
		time.Sleep(10 * time.Second)
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed || got.Image == nil || len(got.Image.Values()) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestWhatIsWaitedForChanges: half an hour begins anew with what is waited for, and not with why nobody knows the same image.
func TestWhatIsWaitedForChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g, h := w.guard(), w.assigned(request(), ann)
		ask := func(v consent.Verdict) consent.Answer {
			w.policy.Verdict = v
			time.Sleep(11 * time.Second)
			return g.Ask(t.Context(), h, pull())
		}
		for began := time.Now(); time.Since(began) < 29*time.Minute; {
			if got := ask(later(false)); got.Decision != consent.Asked {
				t.Fatalf("%+v", got)
			}
		}
		other := later(false)
		other.Sentence = "this host can't say where a path leads"
		for began := time.Now(); time.Since(began) < 29*time.Minute; {
			if got := ask(other); got.Decision != consent.Asked {
				t.Fatalf("after %v of something else: %+v", time.Since(began), got)
			}
		}
		began := time.Now()
		for i := 0; ; i++ {
			got := ask(consent.Verdict{Decision: consent.Refused, Sentence: "no", Soon: []string{"image a: no answer", "image a: busy"}[i%2]})
			if got.Decision == consent.Refused {
				break
			}
			if time.Since(began) > time.Hour {
				t.Fatalf("it waits: %+v", got)
			}
		}
	})
}
