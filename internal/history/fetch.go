package history

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Source is where other SNs are asked for what they have kept.
type Source interface {
	// Others are the other SNs, by name.
	Others() []string
	// Ask asks an SN for rounds of a contract, the one that leads for no name: ok is false if that is this SN, or nobody. What comes is
	// not checked.
	Ask(ctx context.Context, sn, contract string, q Query) (part Part, ok bool, err error)
}

const (
	// pull is how often an SN that does not lead asks for what it lacks.
	pull = time.Second
	// page bounds the rounds of one question.
	page = 500
	// settle is how long after a commit the leader may be told more of it.
	settle = 30 * time.Second
	// maxWait is how long an SN waits at most until it asks again one that had nothing to say.
	maxWait = time.Minute
	// maxTries is how often an SN is asked at most that does not answer.
	maxTries = 8
	// timeout bounds one question.
	timeout = 8 * time.Second
)

// debt is what other SNs may know of a run and this one does not.
type debt struct {
	pulled uint64        // the newest round that the leader has shown, or that was committed while this SN led
	wait   time.Duration // until the leader is asked again that had nothing new
	next   time.Time     // when the leader is asked again

	others      []string // who are to be asked besides, once
	from, until uint64   // for which rounds
	after       uint64   // the last one that the first of them has shown
	tries       map[string]int
	nextOther   time.Time
}

// owe has the other SNs asked, once, for the newest rounds that this SN has, and those behind them up to one.
func (r *Recorder) owe(t *training, until uint64) {
	d := &t.debt
	d.others, d.until, d.tries, d.nextOther = r.source.Others(), until, map[string]int{}, time.Time{}
	d.from = d.pulled - min(d.pulled, again)
	d.after = d.from
}

// asked returns up to which round nobody is to be asked any more.
func (d *debt) asked() uint64 {
	if len(d.others) > 0 {
		return min(d.pulled, d.from+again)
	}
	return d.pulled
}

// committed notes that a round was committed, of which this SN hears itself if it leads.
func (d *debt) committed(led bool, round uint64) {
	if led && len(d.others) == 0 {
		d.pulled = round
	}
	if d.wait > pull {
		d.wait, d.next = pull, time.Now().Add(pull)
	}
}

// errand is one question.
type errand struct {
	contract string
	run      uint64
	sn       string // empty: the one that leads
	after    uint64
}

type answer struct {
	errand

	part Part
	ok   bool
	err  error
}

// run asks until ctx ends.
func (r *Recorder) run(ctx context.Context, errands <-chan errand, answers chan<- answer) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-errands:
			a := answer{errand: e}
			asking, cancel := context.WithTimeout(ctx, timeout)
			a.part, a.ok, a.err = r.source.Ask(asking, e.sn, e.contract, Query{After: e.after, Most: page})
			cancel()
			select {
			case <-ctx.Done():
				return
			case answers <- a:
			}
		}
	}
}

// lead notes whether this SN leads. When it begins to, others may have heard what it has not.
func (r *Recorder) lead() {
	leads := r.swarm.IsLeader()
	if leads && !r.led {
		for _, t := range r.seen {
			if t.committed != nil {
				r.owe(t, t.committed.Round)
			}
		}
	}
	r.led = leads
}

// errand is what is to be asked next, of one contract after the other.
func (r *Recorder) errand() (e errand, ok bool) {
	if r.resting() {
		return e, false
	}
	names := slices.Sorted(maps.Keys(r.seen))
	i, found := slices.BinarySearch(names, r.served)
	if found {
		i++
	}
	for _, name := range slices.Concat(names[i:], names[:i]) {
		if e, ok = r.seen[name].errand(name, r.led); ok {
			return e, true
		}
	}
	return e, false
}

// errand is what is to be asked next of a contract.
func (t *training) errand(contract string, leads bool) (e errand, ok bool) {
	d, now := &t.debt, time.Now()
	switch {
	case t.committed == nil:
		return e, false
	case !leads && !now.Before(d.next) && (d.pulled < t.committed.Round || now.Sub(t.fresh) < settle):
		return errand{contract, t.run, "", d.pulled - min(d.pulled, again)}, true
	case len(d.others) > 0 && !now.Before(d.nextOther):
		return errand{contract, t.run, d.others[0], d.after}, true
	}
	return e, false
}

// answered takes what an SN has said.
func (r *Recorder) answered(a answer) {
	t := r.seen[a.contract]
	if r.served = a.contract; t == nil || t.run != a.run {
		return
	}
	if a.err != nil {
		r.log.Debug("could not ask another SN for a contract's history", "contract", a.contract, "sn", a.sn, "err", a.err)
	}
	if a.part.Run != t.run {
		a.part.Rounds = nil
	}
	shown, err := r.take(t, a)
	if err != nil {
		t.debt.next, t.debt.nextOther = time.Now().Add(rest), time.Now().Add(rest)
		return // and asks again
	}
	full := shown > a.after && shown < min(a.part.Last, t.committed.Round) // who answers bounds its bytes too, so a page may have fewer rounds than were asked for
	if a.sn == "" {
		t.debt.ledSaid(shown, full, !a.ok || time.Since(t.fresh) < settle)
		return
	}
	t.debt.otherSaid(a, shown, full)
	if len(t.debt.others) == 0 && r.led {
		t.debt.pulled = t.committed.Round
	}
}

// ledSaid notes up to which round the leader has shown something, and when it is to be asked again: soon, or less and less often.
func (d *debt) ledSaid(shown uint64, full, soon bool) {
	full = full && shown > d.pulled // who leads may lack its last rounds
	switch {
	case shown > d.pulled:
		d.pulled, d.wait = shown, pull
	case soon || d.wait == 0:
		d.wait = pull
	default:
		d.wait = min(2*d.wait, maxWait)
	}
	d.next = time.Now().Add(d.wait)
	if full {
		d.next = time.Time{}
	}
}

// otherSaid notes up to which round another SN has shown something, and who is asked next.
func (d *debt) otherSaid(a answer, shown uint64, full bool) {
	if len(d.others) == 0 || d.others[0] != a.sn {
		return // this SN has begun to lead meanwhile
	}
	if a.err == nil && a.ok && full && shown < d.until {
		d.after = shown
		return
	}
	d.others, d.after = d.others[1:], d.from
	if a.err == nil {
		return
	}
	if d.tries[a.sn]++; d.tries[a.sn] < maxTries {
		d.others = append(d.others, a.sn)
		d.nextOther = time.Now().Add(min(pull<<d.tries[a.sn], maxWait))
	}
}

// take keeps what another SN was told, up to the round that it returns. It stops where the disk fails.
func (r *Recorder) take(t *training, a answer) (shown uint64, err error) {
	bad := 0
	for _, theirs := range a.part.Rounds[:min(len(a.part.Rounds), page)] {
		if theirs.Round <= max(shown, a.after) || !theirs.clean() {
			bad++
			continue
		}
		if t.committed == nil || theirs.Round > t.committed.Round {
			break // its time comes when it is seen here
		}
		if err = r.learned(t, a, theirs); err != nil {
			break
		}
		shown = theirs.Round
	}
	if bad > 0 && time.Since(r.warned) > time.Minute {
		r.warned = time.Now()
		r.log.Warn("what another SN tells of rounds is out of bounds and is not kept; update that SN", "contract", a.contract, "sn", a.sn, "rounds", bad)
	}
	return shown, err
}

// learned keeps what another SN was told of one round.
func (r *Recorder) learned(t *training, a answer, theirs *Round) error {
	mine := t.open[theirs.Round]
	opened := mine != nil
	if !opened {
		var err error
		if mine, err = r.kept(a.contract, t.run, theirs.Round); err != nil {
			return err
		}
	}
	if mine == nil {
		return r.keep(a.contract, t.run, theirs)
	}
	next := mine.clone()
	next.learn(theirs, a.sn == "" && !r.led, r.knows)
	if reflect.DeepEqual(mine, next) {
		return nil
	}
	if opened {
		t.open[theirs.Round], t.dirty[theirs.Round] = next, true
		return nil
	}
	return r.keep(a.contract, t.run, next)
}
