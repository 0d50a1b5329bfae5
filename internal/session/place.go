package session

// place is by what a session decides whether it is of another run than it thought.
type place struct {
	run       uint64
	fresh     bool // it has nothing that belongs to a run
	held      bool // it has had a model of the run
	moved     bool // it went to another run before
	reopening bool // it is being opened anew
	ended     bool
	bound     bool // it is not opened anew: it was adopted and not seen since, or is not open yet
}

// next is what becomes of a session by a view.
type next int

const (
	stay   next = iota // the view is of its run
	ignore             // the view says nothing to it
	follow             // it goes to the view's run
	reset              // its run is over
)

func (mb *membership) placeLocked() place {
	s := mb.s
	return place{
		run: s.run, fresh: mb.freshLocked(), held: s.model.passedLocked() != 0, moved: mb.moved, reopening: mb.reopening, ended: s.ended(),
		bound: mb.before.bound || s.engine.current != s,
	}
}

// mayGo reports whether the session may go to a run: while it has no model, if it has begun nothing, or if an SN must have lied: runs only go
// up, so one that is lower than its own shows that, and so does it that there were two before.
func (p place) mayGo(run uint64) bool { return !p.held && (p.fresh || run < p.run || p.moved) }

// after says what becomes of the session by a view of a run in which it has a state; empty: the view does not show it. It goes to the run of
// a view that shows it in another one than an SN had said. In one that is reset it stands as ended. A higher run is that of a reset,
// unless the session is being opened anew there: a view can come before that call's answer. Who is missing is to be opened anew.
func (p place) after(run uint64, state string) (n next, missing bool) {
	there := state == "open" || state == "closed"
	missing = state == "" && !p.ended && !p.bound && (run == p.run || p.mayGo(run))
	switch {
	case run == p.run:
		return stay, missing
	case missing:
		return ignore, true
	case there && !p.ended && p.mayGo(run) && (run < p.run || p.moved || p.reopening):
		return follow, false
	case run < p.run:
		return ignore, false
	}
	return reset, false
}
