package consent_test

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	owners "github.com/swarmd/swarmd/internal/policy"
)

func digestOf(i int) string {
	s := strconv.Itoa(i)
	return "sha256:" + strings.Repeat("0", 64-len(s)) + s
}

// moves has the image's name stand for another image each time that it is looked for.
func (w *world) moves() {
	w.images.now = func() (*owners.Image, error) { return owners.NewImage("a:1", digestOf(w.images.found)) }
}

// TestTheImageIsFoundOnce: whatever its name stands for later, who is asked sees and lets through the image of the first look, also after
// the host was started again, and in the next placement.
func TestTheImageIsFoundOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.moves()
		w.asks()
		g, h := w.guard(), w.assigned(request(), ann)
		want := waits + "; image " + digestOf(1) + " (a:1)"
		for range 3 {
			if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked || got.Words != want {
				t.Fatalf("got %+v, want %q", got, want)
			}
			g = w.guard()
		}
		h.Approvals = []task.Approval{w.says(bob, "ApproveTask", word())}
		for epoch := range 2 {
			h.Epoch = uint32(epoch + 1)
			for range 2 {
				got := g.Ask(t.Context(), h, pull())
				if got.Decision != consent.Allowed || got.Image == nil || got.Image.ID != digestOf(1) {
					t.Errorf("placement %d: %+v", h.Epoch, got)
				}
				g = w.guard()
			}
			if err := g.Ended("7", h.Epoch, "done"); err != nil {
				t.Fatal(err)
			}
		}
		if w.images.found != 1 {
			t.Errorf("looked for %d times", w.images.found)
		}
		for _, judged := range w.policy.judged {
			if judged != digestOf(1)+" (a:1)" {
				t.Errorf("the policy judged %s", judged)
			}
		}
		if !strings.Contains(w.log.String(), "image "+digestOf(1)+" (a:1)") {
			t.Errorf("the log lacks it:\n%s", w.log)
		}
	})
}

// TestAnImageThatIsNotKnown is looked for again with each decision, but not each time that a host which waits for approval asks.
func TestAnImageThatIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.images.now = func() (*owners.Image, error) { return owners.UnknownImage("a:1", "no registry answers"), nil }
		g, h := w.guard(), w.assigned(request(), ann)
		for i, says := range []consent.Decision{consent.Refused, consent.Refused, consent.Asked, consent.Asked, consent.Allowed} {
			w.policy.Decision = says
			got := g.Ask(t.Context(), h, pull())
			if want := min(i+1, 3); got.Decision != says || w.images.found != want {
				t.Errorf("%d: %+v, looked for %d times, want %d", i, got, w.images.found, want)
			}
			if says == consent.Asked && !strings.Contains(got.Words, "; the digest of image a:1 is unknown: whatever the name stands for then is fetched: no registry answers") {
				t.Errorf("%q", got.Words)
			}
		}
		if got := w.guard().Ask(t.Context(), h, pull()); got.Image == nil || got.Image.Name != "a:1" || got.Image.ID != "" {
			t.Errorf("what goes on: %+v", got)
		}
	})
}

// TestAnImageThatIsNotThere: the host says so and keeps nothing; it looks for the image only for what an operator has signed.
func TestAnImageThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	w.images.now = func() (*owners.Image, error) { return nil, errors.New("no image\na:1: assign task fetch first") }
	g, h := w.guard(), w.assigned(request(), ann)
	forged := *h
	forged.Order = nil
	if got := g.Ask(t.Context(), &forged, pull()); got.Decision != consent.Refused || w.images.found != 0 {
		t.Errorf("forged: %+v, looked for %d times", got, w.images.found)
	}
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || got.Words != "no image a:1: assign task fetch first" {
		t.Errorf("%+v", got)
	}
	if e, known := w.journal.Find("7"); known {
		t.Errorf("the journal has %+v", e)
	}
	w.moves()
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
		t.Errorf("once it is there: %+v", got)
	}
}

// TestAnImageThatNobodyCanTellNow has the assignment wait, and is looked for again every 10 seconds, however often the host asks.
func TestAnImageThatNobodyCanTellNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.images.no = consent.Verdict{Decision: consent.Later, Sentence: "the engine does not say", Detail: "dial unix: refused"}
		g, h := w.guard(), w.assigned(request(), ann)
		for range 20 {
			if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked || got.Words != "waits: the engine does not say" {
				t.Errorf("%+v", got)
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(w.log.String(), "dial unix: refused"); w.images.found != 2 || n != 1 {
			t.Errorf("looked for %d times, told %d times:\n%s", w.images.found, n, w.log)
		}
		w.images.no = consent.Verdict{}
		w.moves()
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed || got.Image == nil {
			t.Errorf("once it is known: %+v", got)
		}
	})
}

// TestNobodyIsAskedForTheImageOfWhatIsRefused: no registry hears of a task that the policy refuses whatever its image.
func TestNobodyIsAskedForTheImageOfWhatIsRefused(t *testing.T) {
	w := newWorld(t)
	w.moves()
	w.policy.best = consent.Refused
	got := w.guard().Ask(t.Context(), w.assigned(request(), ann), pull())
	if got.Decision != consent.Refused || !strings.Contains(got.Words, host+" refuses it to ") || !strings.Contains(got.Words, "no image would do") || w.images.found != 0 {
		t.Errorf("%+v, looked for %d times", got, w.images.found)
	}
}

// TestOthersDoNotWaitForARegistry: while one image is looked for, other assignments are decided on, and end.
func TestOthersDoNotWaitForARegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var looks atomic.Int32
		w.images.now = func() (*owners.Image, error) {
			n := int(looks.Add(1))
			if n == 1 {
				time.Sleep(time.Minute)
			}
			return owners.NewImage("a:1", digestOf(n)) // another one each time
		}
		g, h := w.guard(), w.assigned(request(), ann)
		first := make(chan consent.Answer)
		go func() { first <- g.Ask(t.Context(), h, pull()) }()
		synctest.Wait()
		other := w.assigned(request(), ann)
		other.ID = "8"
		began := time.Now()
		if got := g.Ask(t.Context(), other, pull()); got.Decision != consent.Refused || time.Since(began) > 0 { // no operator signed that ID
			t.Errorf("another: %+v", got)
		}
		second := g.Ask(t.Context(), h, pull()) // another member of the same assignment is quicker
		if one := <-first; one.Image == nil || second.Image == nil || one.Image.ID != second.Image.ID {
			t.Errorf("two members have %+v and %+v", one.Image, second.Image)
		}
	})
}

// TestAnApprovalOfAnImage counts only if the host has found that image: an SN can't show its approver another one.
func TestAnApprovalOfAnImage(t *testing.T) {
	for signed, want := range map[string]string{"": "", digestOf(1): "", digestOf(2): "was signed for image \"" + digestOf(2) + "\", not for " + digestOf(1) + " (a:1)", "a:1": `signed for image "a:1"`} {
		w := newWorld(t)
		w.moves()
		w.asks()
		h, x := w.assigned(request(), ann), word()
		x.Part.Image = signed
		h.Approvals = []task.Approval{w.says(bob, "ApproveTask", x)}
		got := w.guard().Ask(t.Context(), h, pull())
		if want == "" && got.Decision != consent.Allowed || want != "" && (got.Decision != consent.Asked || !strings.Contains(w.log.String(), strings.ReplaceAll(want, `"`, `\"`))) {
			t.Errorf("signed for %q: %+v, and the log has\n%s", signed, got, w.log)
		}
	}
	w := newWorld(t)
	w.asks()
	w.images.now = func() (*owners.Image, error) { return owners.UnknownImage("a:1", "no registry answers"), nil }
	h, x := w.assigned(request(), ann), word()
	x.Part.Image = digestOf(1)
	h.Approvals = []task.Approval{w.says(bob, "ApproveTask", x)}
	if got := w.guard().Ask(t.Context(), h, pull()); got.Decision != consent.Asked || !strings.Contains(w.log.String(), `and no digest of \"a:1\" is known here: no registry answers`) {
		t.Errorf("an image that is not known: %+v\n%s", got, w.log)
	}
	w = newWorld(t)
	w.asks()
	h, x = w.assigned(request(), ann), word()
	x.Part.Image = digestOf(1)
	h.Approvals = []task.Approval{w.says(bob, "ApproveTask", x)}
	if got := w.guard().Ask(t.Context(), h, pull()); got.Decision != consent.Asked || !strings.Contains(got.Words, "and the task has none") {
		t.Errorf("a task without an image: %+v", got)
	}
}

// TestSeveralImages: who is asked is told all of them with what stands for all, which an approval may name; the host's log has each.
func TestSeveralImages(t *testing.T) {
	two := func() (*owners.Image, error) {
		return owners.NewImages(&owners.Image{Name: "b:1", ID: digestOf(2)}, &owners.Image{Name: "a:1", ID: digestOf(1)})
	}
	both, err := two()
	if err != nil {
		t.Fatal(err)
	}
	for signed, counts := range map[string]bool{"": true, both.Together(): true, digestOf(1): false, digestOf(2): false} {
		w := newWorld(t)
		w.asks()
		w.images.now = two
		h, x := w.assigned(request(), ann), word()
		if got, want := w.guard().Ask(t.Context(), h, pull()), waits+"; images "+both.Together()+" (a:1, b:1)"; got.Decision != consent.Asked || got.Words != want {
			t.Fatalf("got %+v, want %q", got, want)
		}
		for _, each := range []string{digestOf(1) + " (a:1)", digestOf(2) + " (b:1)"} {
			if !strings.Contains(w.log.String(), each) {
				t.Errorf("the log lacks %s:\n%s", each, w.log)
			}
		}
		x.Part.Image = signed
		h.Approvals = []task.Approval{w.says(bob, "ApproveTask", x)}
		got := w.guard().Ask(t.Context(), h, pull()) // which has read the journal anew
		if (got.Decision == consent.Allowed) != counts || counts && (got.Image.Of("b:1") == nil || got.Image.Of("b:1").ID != digestOf(2)) {
			t.Errorf("signed for %q: %+v", signed, got)
		}
	}
}
