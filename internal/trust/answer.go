package trust

import (
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

// answer is what a guard has found of the sessions of one view: nobody modifies a view, and it is asked about at each step and
// report. What changes known drops it.
type answer[T any] struct {
	of    []*round.Session
	found []T
	until time.Time // from then on the clock may say something else
}

// holds reports whether the answer is about these sessions of a view, and still true.
func (a *answer[T]) holds(of []*round.Session, now time.Time) bool {
	return len(of) > 0 && len(a.of) == len(of) && &a.of[0] == &of[0] && now.Before(a.until)
}

// notBeyond bounds how long the answer holds by when the clock says something else of what a node has shown; nil: never.
func (a *answer[T]) notBeyond(k *known, now time.Time) {
	if k == nil {
		return
	}
	for _, t := range [...]time.Time{k.checked.Add(recheck), k.ends, k.again} {
		if !t.Before(now) && t.Before(a.until) {
			a.until = t
		}
	}
}
