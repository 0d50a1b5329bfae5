package consent

import (
	"cmp"
	"errors"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/text"
)

// How an assignment waits for what nobody can say.
const (
	maxLater   = 256              // assignments that are remembered
	laterPause = 10 * time.Second // in which nobody is asked again
	laterLimit = 30 * time.Minute // after which it is refused
	soonLimit  = 5 * time.Minute  // after which somebody is asked, without what might be said soon
)

// timeout is how long an assignment waits for what nobody can say of it; 0: it does not.
func (v *Verdict) timeout() time.Duration {
	switch {
	case v.Decision == Later, v.Decision == Refused && v.Soon != "":
		return laterLimit
	case v.Decision == Asked && v.Soon != "":
		return soonLimit
	}
	return 0
}

// waitsFor reports whether another verdict waits for the same. Why nobody knows an image may be said in other words each time.
func (v *Verdict) waitsFor(other *Verdict) bool {
	if v.Soon != "" && other.Soon != "" {
		return true
	}
	return v.Soon == other.Soon && v.Sentence == other.Sentence
}

// waiting are assignments, by what they wait for, that wait for what nobody can say now.
type waiting map[string]postponed

// postponed is what nobody could say.
type postponed struct {
	Verdict

	image *policy.Image // that it was said of
	epoch uint32
	since time.Time // when it was asked for first
	until time.Time // nobody is asked again before
}

// put notes what nobody can say, and returns how it stands with that, and whether that is news.
func (w waiting) put(key string, epoch uint32, v Verdict, image *policy.Image, now time.Time) (p postponed, news bool) {
	before, known := w[key]
	if !known {
		w.makeRoom()
	}
	known = known && before.epoch == epoch
	p = before
	switch {
	case !known || !before.waitsFor(&v):
		p = postponed{Verdict: v, image: image, epoch: epoch, since: now, until: now.Add(laterPause)}
	case before.Verdict != v || !now.Before(before.until):
		p.Verdict, p.image, p.until = v, image, now.Add(laterPause)
	}
	w[key] = p
	return p, !known || before.Verdict != v
}

// makeRoom forgets the one that was not asked for for the longest time, if there are as many as may be.
func (w waiting) makeRoom() {
	if len(w) < maxLater {
		return
	}
	oldest := ""
	for key, p := range w {
		if oldest == "" || p.until.Before(w[oldest].until) {
			oldest = key
		}
	}
	delete(w, oldest)
}

// Gets is for an assignment that Ask has allowed: v says whether it gets what it is to have of the host. While nobody can say, it waits as in
// [Guard.Ask].
func (g *Guard) Gets(h *task.Hosted, v Verdict) Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a, waits := g.postpone(h, "given to "+h.ID, v, nil, time.Now()); waits {
		return a
	}
	delete(g.later, "given to "+h.ID)
	if v.Decision == Allowed {
		return Answer{Decision: Allowed}
	}
	g.cfg.Log.Warn("what an assignment was to have of this host it does not have", "assignment", h.ID, "why", text.Line(v.Sentence), "detail", text.Line(v.Detail))
	return Answer{Decision: Refused, Words: line(v.Sentence)}
}

// postpone has an assignment wait for what nobody can say now. It does not wait, or no more, where what was decided is to count; where nothing
// was, it is refused if that does not pass, or has not for long.
func (g *Guard) postpone(h *task.Hosted, key string, v Verdict, image *policy.Image, now time.Time) (a Answer, waits bool) {
	timeout := v.timeout()
	if timeout == 0 {
		return Answer{}, false
	}
	p, news := g.later.put(key, h.Epoch, v, image, now)
	what, inVain := cmp.Or(v.Soon, v.Sentence), now.Sub(p.since) >= timeout
	if news {
		g.cfg.Log.Warn("an assignment waits for what nobody can say now", "assignment", h.ID, "what", text.Line(what), "err", text.Line(v.Detail), "lasts", v.Lasts)
	}
	switch {
	case v.Lasts:
		return Answer{Decision: Refused, Words: line(what)}, true
	case !inVain:
		return Answer{Decision: Asked, Words: line("waits: " + what)}, true
	case v.Decision == Later:
		return Answer{Decision: Refused, Words: line("waited " + timeout.String() + " in vain: " + what)}, true
	}
	return Answer{}, false
}

// unkept is what is said of a decision that the journal can't hold. Where the journal is, and why, is for the host's log.
func unkept(err error) Verdict {
	v := Verdict{Decision: Later, Sentence: "this host can't write to its disk what it decides: see its SWOP's log", Detail: err.Error()}
	if full, ok := errors.AsType[*noRoom](err); ok {
		v.Sentence = full.Error()
	}
	return v
}
