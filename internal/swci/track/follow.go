package track

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

const (
	// every is the time between two questions.
	every = 2 * time.Second
	// longest bounds the time between two tries of what does not answer.
	longest = time.Minute
	// settle is how long after a commit SNs may be told more of a round.
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
	Rounds   uint64 // that this call has written to the first sink
	Last     uint64 // the newest round that all sinks have
	LeftOut  uint64 // rounds that the swarm's history no longer has
	Over     bool
	Standing Standing
}

// Follower writes a training's rounds into sinks.
type Follower struct {
	Config

	state   State
	sinks   []*writer
	seen    time.Time // when the last round was seen first
	waiting tries     // of the source
	result  Result
}

// writer is a sink and what is known of it.
type writer struct {
	Sink

	open  bool
	after uint64
	stood string // as it was told last
	tries tries
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
		if err != nil || done {
			return f.result, err
		}
		if err := pause.For(ctx, every); err != nil {
			return f.result, err
		}
	}
}

// turn asks once, and writes what is new.
func (f *Follower) turn(ctx context.Context) (done bool, err error) {
	if time.Now().Before(f.waiting.next) {
		return false, nil
	}
	err = f.look(ctx)
	if err == nil && f.state.Run > 0 {
		done, err = f.write(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil && passing(err) && !f.Once:
		f.waiting.failed(err, f.Say)
		return false, nil
	case err != nil:
		return false, err
	case f.waiting.said != "":
		f.Say("the swarm answers again")
	}
	f.waiting = tries{}
	if f.state.Run == 0 {
		if f.Once {
			return true, exit.New(exit.NotFound, "wait until its first program has begun, or leave out --once", "contract %s has not begun: nobody has said how its models are merged", f.state.Contract)
		}
		return false, nil
	}
	return done || f.Once && !f.state.Over, nil
}

// look asks how the training stands.
func (f *Follower) look(ctx context.Context) error {
	s, err := f.Source.State(ctx)
	if err != nil {
		return err
	}
	if s.Run != f.state.Run {
		if f.state.Run != 0 {
			f.Say(fmt.Sprintf("contract %s was reset: run %d is over", s.Contract, f.state.Run))
			f.leave(ctx)
		}
		f.result = Result{}
		for _, w := range f.sinks {
			w.open, w.after, w.stood = false, 0, ""
		}
	}
	if s.Run != f.state.Run || s.Round != f.state.Round {
		f.seen = time.Now()
	}
	f.state = s
	f.result.Run, f.result.Over, f.result.Standing = s.Run, s.Over, s.Standing
	return nil
}

// leave says that a run has ended which was reset. What fails is told; the new run matters more.
func (f *Follower) leave(ctx context.Context) {
	old := f.state
	if !old.Over {
		old.Standing, old.Over = Ended, true
	}
	for _, w := range f.sinks {
		if w.open {
			if err := w.Stand(ctx, &old); err != nil && ctx.Err() == nil {
				f.Say(fmt.Sprintf("could not end run %d: %v", old.Run, err))
			}
		}
	}
}

// write brings every sink that answers up to date. done: the training is over, and all sinks have all of it.
func (f *Follower) write(ctx context.Context) (done bool, err error) {
	done = f.state.Over
	for i, w := range f.sinks {
		if time.Now().Before(w.tries.next) {
			done = false
			continue
		}
		whole, err := f.bring(ctx, w, i == 0)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		asked, isAsked := errors.AsType[*sourceError](err)
		switch {
		case err == nil && w.tries.said != "":
			f.Say(fmt.Sprintf("%s answers again; it has the rounds up to %d", w, w.after))
			w.tries = tries{}
		case err == nil:
		case isAsked:
			return false, asked.error
		case passing(err) && !f.Once:
			w.open = false
			w.tries.failed(err, f.Say)
		default:
			return false, err
		}
		done = done && whole && err == nil
	}
	f.result.Last = f.state.Round
	for _, w := range f.sinks {
		f.result.Last = min(f.result.Last, w.after)
	}
	if done {
		f.result.LeftOut += f.state.Round - min(f.state.Round, f.sinks[0].after) // at the end, which nobody has any more
	}
	return done, nil
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

// bring writes into a sink what it lacks. whole: the training is over, and it lacks nothing.
func (f *Follower) bring(ctx context.Context, w *writer, first bool) (whole bool, err error) {
	if !w.open {
		if w.after, err = w.Open(ctx, &f.state); err != nil {
			return false, err
		}
		w.open, w.stood = true, ""
	}
	for w.after < f.state.Round {
		page, err := f.Source.After(ctx, w.after)
		if err != nil {
			return false, &sourceError{err}
		}
		if page.Run != f.state.Run { // nothing is kept, or it was reset just now
			page.Rounds, page.More = nil, false
		}
		if err := forward(w.after, page.Rounds); err != nil {
			return false, &sourceError{err}
		}
		most := len(page.Rounds)
		if page.More && most > 1 {
			most-- // when the one behind it was committed is known with the next page
		}
		n := f.settled(page.Rounds, most)
		before := w.after
		if n > 0 {
			if err := w.Write(ctx, page.Rounds[:n]); err != nil {
				return false, err
			}
			w.after = page.Rounds[n-1].Round
		}
		if first && n > 0 {
			f.result.Rounds, f.result.LeftOut = f.result.Rounds+uint64(n), f.result.LeftOut+leftOut(before, page.Rounds[:n])
		}
		if n < most || !page.More {
			whole = n == most && f.age(f.state.AtMS) >= settle
			break
		}
	}
	whole = f.state.Over && (whole || w.after >= f.state.Round || f.state.Round == 0)
	return whole, f.stand(ctx, w, whole)
}

// stand says how the training stands if that is news: that it is over once all of it is written.
func (f *Follower) stand(ctx context.Context, w *writer, whole bool) error {
	s := f.state
	if s.Over && !whole {
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

// leftOut counts the rounds that are not among those behind one.
func leftOut(before uint64, rounds []Round) uint64 {
	return rounds[len(rounds)-1].Round - before - uint64(len(rounds))
}

// settled returns how many of the first rounds, so many at most, SNs are told no more of.
func (f *Follower) settled(rounds []Round, most int) int {
	for i, r := range rounds[:most] {
		next := f.state.AtMS // of the commit behind it
		if i+1 < len(rounds) {
			next = rounds[i+1].AtMS
		}
		told := r.Told && r.Round < f.state.Round && f.age(next) >= arrive
		if !told && f.age(r.AtMS) < settle {
			return i
		}
	}
	return most
}

// age is how long ago something was by an SN's clock: at least the time from then until the last commit, and since that was seen.
func (f *Follower) age(atMS int64) time.Duration {
	own := time.Since(time.UnixMilli(atMS))
	if own >= past {
		return own
	}
	return time.Duration(f.state.AtMS-atMS)*time.Millisecond + time.Since(f.seen)
}

// sourceError is an error of the swarm's, where a sink's would be too.
type sourceError struct{ error }

// Unwrap returns the swarm's error.
func (e *sourceError) Unwrap() error { return e.error }
