package track

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

const (
	// every is the time between two questions.
	every = 2 * time.Second
	// longest bounds the time between two tries of what does not answer.
	longest = time.Minute
	// settle is how long after a commit SNs may be told more of a round, and how long an SN has to learn what others know of it.
	settle = 30 * time.Second
	// arrive is how long what was told of a round may be on its way once the round after it was committed.
	arrive = 5 * time.Second
	// past is the age by this machine's clock at which a round is settled: with a clock that is wrong by so much no SVID would be valid.
	past = time.Hour
)

// Config is what is followed, and who is told.
type Config struct {
	Source Source
	Sinks  []Sink
	Once   bool              // write what there is, then end
	Say    func(line string) // tells the user what is waited for
}

// Result is what came of it.
type Result struct {
	Run      uint64
	Over     bool
	Standing Standing
	Sinks    []Written // in the order of Config.Sinks
}

// Written is what a sink was given.
type Written struct {
	Rounds  uint64 // by this call
	Last    uint64 // the newest one that it has
	LeftOut uint64 // rounds that the swarm's history lacks
}

// Follower writes a training's rounds into sinks. Each sink follows by itself.
type Follower struct {
	Config

	state   State
	sinks   []*writer
	seen    []sighting // of the newest rounds, oldest first
	waiting tries      // of the source
}

// sighting is when a round was first seen to be the last one that is committed, by this machine's monotonic clock.
type sighting struct {
	round uint64
	at    time.Time
}

// writer is a sink and what is known of it.
type writer struct {
	Sink

	open    bool
	opened  time.Time
	after   uint64
	stood   string // as it was told last
	written Written
	tries   tries
	again   bool  // it was opened once more after an error that does not pass
	err     error // why it was given up
	waits   bool  // for what the swarm's history lacks
	whole   bool  // the training is over, and it has all of it
}

// tries are those of something that does not answer.
type tries struct {
	wait time.Duration
	next time.Time
	said string
}

// failed notes a try that failed, and has a reason said once.
func (t *tries) failed(err error, say func(string)) {
	t.wait = min(max(every, 2*t.wait), longest)
	t.next = time.Now().Add(t.wait)
	if why := err.Error(); why != t.said {
		t.said = why
		if hint := exit.Hint(err); hint != "" {
			why += ": " + hint
		}
		say(why)
	}
}

// passing reports whether an error may pass by itself.
func passing(err error) bool {
	switch exit.Code(err) {
	case exit.Unreachable, exit.NoLeader, exit.TimedOut:
		return true
	}
	return false
}

// Run follows until the training is complete and all of it is written, until ctx ends, or until something fails that waiting can't cure.
func (f *Follower) Run(ctx context.Context) (Result, error) {
	for _, s := range f.Sinks {
		f.sinks = append(f.sinks, &writer{Sink: s})
	}
	for {
		done, err := f.turn(ctx)
		for _, w := range f.sinks {
			if done && err == nil {
				err = w.err
			}
		}
		if err != nil || done {
			return f.result(), err
		}
		if err := pause.For(ctx, every); err != nil {
			return f.result(), err
		}
	}
}

// result says what was written until now.
func (f *Follower) result() Result {
	out := Result{Run: f.state.Run, Over: f.state.Over, Standing: f.state.Standing}
	for _, w := range f.sinks {
		one := w.written
		if one.Last = w.after; w.whole {
			one.LeftOut += f.state.Round - min(f.state.Round, w.after) // at the end, which nobody has any more
		}
		out.Sinks = append(out.Sinks, one)
	}
	return out
}

// turn asks once, and writes what is new.
func (f *Follower) turn(ctx context.Context) (done bool, err error) {
	if time.Now().Before(f.waiting.next) {
		return false, nil
	}
	err = f.look(ctx)
	gone := exit.Code(err) == exit.NotFound
	if err == nil || gone {
		var failed error
		if done, failed = f.write(ctx); failed != nil {
			err = failed
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil && passing(err) && !f.Once:
		f.seen = nil // another SN may lead now, which may have yet to learn what that before knew
		f.waiting.failed(err, f.Say)
		return false, nil
	case err != nil:
		return false, err
	case f.waiting.said != "":
		f.Say("the swarm answers again")
	}
	f.waiting = tries{}
	if f.state.Run == 0 && f.Once {
		return true, exit.New(exit.NotFound, "wait until its first program has begun, or leave out --once", "contract %s has not begun: nobody has said how its models are merged", f.state.Contract)
	}
	return done, nil // also before it has begun, if no sink takes anything
}

// look asks how the training stands. A contract that is gone has no run.
func (f *Follower) look(ctx context.Context) error {
	s, err := f.Source.State(ctx)
	if err != nil && exit.Code(err) != exit.NotFound {
		return err
	}
	if s.Run != f.state.Run {
		if f.state.Run != 0 && err == nil {
			f.Say(fmt.Sprintf("contract %s was reset: run %d is over", s.Contract, f.state.Run))
		}
		for i, w := range f.sinks {
			f.sinks[i] = &writer{Sink: w.Sink, tries: w.tries, err: w.err}
		}
		f.seen = nil
	}
	if n := len(f.seen); n == 0 || s.Round > f.seen[n-1].round {
		f.seen = append(f.seen, sighting{s.Round, time.Now()})
	}
	for len(f.seen) > 1 && time.Since(f.seen[1].at) >= settle {
		f.seen = f.seen[1:]
	}
	f.state = s
	return err
}

// write brings every sink that answers up to date. done: nothing is left to be done for any of them. An error is the swarm's.
func (f *Follower) write(ctx context.Context) (done bool, err error) {
	done = true
	for _, w := range f.sinks {
		if w.err == nil && !time.Now().Before(w.tries.next) {
			if err := f.serve(ctx, w); err != nil {
				return false, err
			}
		}
		done = done && (w.err != nil || w.whole || f.Once && !f.state.Over && !w.waits && w.tries.said == "")
	}
	return done, nil
}

// serve brings a sink up to date, and judges why it can't be. An error is the swarm's.
func (f *Follower) serve(ctx context.Context, w *writer) error {
	err := f.bring(ctx, w)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if asked, isAsked := errors.AsType[*sourceError](err); isAsked {
		return asked.error
	}
	switch {
	case err == nil:
		if w.tries.said != "" {
			f.Say(fmt.Sprintf("%s answers again; it has the rounds up to %d", w, w.after))
		}
		w.tries, w.again = tries{}, false
	case passing(err) && !f.Once, !passing(err) && w.open && !w.again: // what was open may be gone, as a run that somebody has deleted
		w.again = w.again || !passing(err)
		w.open, w.waits, w.whole = false, false, false
		w.tries.failed(err, f.Say)
	default:
		if w.err = err; len(f.sinks) > 1 || f.state.Run == 0 {
			f.Say(fmt.Sprintf("%s gets nothing more: %v", w, err))
		}
	}
	return nil
}

// forward holds an answer to what was asked for, rounds behind one in ascending order: else the same would be asked for ever.
func forward(after uint64, rounds []Round) error {
	for _, r := range rounds {
		if r.Round <= after {
			return exit.New(exit.Failed, "ask another SN, with --sn", "an SN was asked for the rounds behind %d and answered with round %d", after, r.Round)
		}
		after = r.Round
	}
	return nil
}

// bring writes into a sink what it lacks. Without a run it is told that those before are over.
func (f *Follower) bring(ctx context.Context, w *writer) (err error) {
	if !w.open {
		if f.state.Run == 0 {
			err = w.End(ctx, &f.state)
		} else {
			w.after, err = w.Open(ctx, &f.state)
		}
		if err != nil {
			return err
		}
		w.open, w.opened, w.stood = true, time.Now(), ""
	}
	if f.state.Run == 0 {
		return nil
	}
	w.waits, w.whole = false, false
	for w.after < f.state.Round {
		page, err := f.page(ctx, w.after)
		if err != nil {
			return &sourceError{err}
		}
		most := len(page.Rounds)
		if page.More && most > 1 {
			most-- // when the one behind it was committed is known with the next page
		}
		n, waits := f.settled(w, page.Rounds, most)
		if n > 0 {
			if err := w.Write(ctx, page.Rounds[:n]); err != nil {
				return err
			}
			last := page.Rounds[n-1].Round
			w.written.Rounds += uint64(n)
			w.written.LeftOut += last - w.after - uint64(n)
			w.after = last
		}
		if w.waits = waits; n < most || !page.More {
			w.whole = n == most && f.waited(w, f.state.Round)
			break
		}
	}
	w.whole = f.state.Over && (w.whole || w.after >= f.state.Round)
	return f.stand(ctx, w)
}

// page asks for rounds of the run behind one.
func (f *Follower) page(ctx context.Context, after uint64) (Page, error) {
	page, err := f.Source.After(ctx, after)
	if err != nil {
		return page, err
	}
	if page.Run != f.state.Run { // nothing is kept, or it was reset just now
		return Page{}, nil
	}
	return page, forward(after, page.Rounds)
}

// stand says how the training stands if that is news: that it is over once all of it is written.
func (f *Follower) stand(ctx context.Context, w *writer) error {
	s := f.state
	if s.Over && !w.whole {
		s.Over, s.Standing = false, Running
	}
	news := fmt.Sprint(s.Over, s.Standing, s.Peers)
	if news == w.stood {
		return nil
	}
	if err := w.Stand(ctx, &s); err != nil {
		return err
	}
	w.stood = news
	return nil
}

// settled returns how many of the first rounds, so many at most, are as they stay. A round is once all is told of it. One that lacks something,
// as one that is missing altogether, is waited for until it is too old for SNs to be told more of it, and then until the SN that is asked has had
// time to learn what others know. waits: the round behind is one of these.
func (f *Follower) settled(w *writer, rounds []Round, most int) (n int, waits bool) {
	before := w.after
	for i, r := range rounds[:most] {
		if r.Round > before+1 && !f.waited(w, r.Round-1) {
			return i, true
		}
		next := f.state.AtMS // of the commit behind it
		if i+1 < len(rounds) {
			next = rounds[i+1].AtMS
		}
		told := r.Told && r.Round < f.state.Round && f.age(next) >= arrive
		switch {
		case told:
		case f.age(r.AtMS) < settle:
			return i, false
		case !r.Told && !f.waited(w, r.Round):
			return i, true
		}
		before = r.Round
	}
	return most, false
}

// waited reports whether what the swarm's history lacks of a round was waited for: since the round was seen to be committed, and the sink was open.
func (f *Follower) waited(w *writer, round uint64) bool {
	i := slices.IndexFunc(f.seen, func(s sighting) bool { return s.round >= round })
	return i >= 0 && time.Since(f.seen[i].at) >= settle && time.Since(w.opened) >= settle
}

// age is how long ago something was by an SN's clock: at least the time from then until the last commit, and since that was seen.
func (f *Follower) age(atMS int64) time.Duration {
	own := time.Since(time.UnixMilli(atMS))
	if own >= past {
		return own
	}
	return time.Duration(f.state.AtMS-atMS)*time.Millisecond + time.Since(f.seen[len(f.seen)-1].at)
}

// sourceError is an error of the swarm's, where a sink's would be too.
type sourceError struct{ error }

// Unwrap returns the swarm's error.
func (e *sourceError) Unwrap() error { return e.error }
