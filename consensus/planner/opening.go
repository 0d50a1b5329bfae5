package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// opening decides whether a round begins, and with whom, or what it waits for.
type opening struct {
	facts  *facts
	lineup *lineup
	answer *answer
	times  *waitTimes
	tries  *attempts
	out    *exclusions
}

// waitTimes are since when a round waits for what, and how long rounds take.
type waitTimes struct {
	readySince  time.Time // since when minPeers are ready
	finalSince  time.Time // since when the final round lacks minPeers
	ownersSince time.Time // since when nobody is there who may own the leaves
	belowSince  time.Time // since when fewer than minPeers are there, if a rule bounds that
	endSeen     time.Time // since when this leader waits for the final round that an operator asked for, and has not planned it since
	endAttempt  uint64    // the last attempt then

	paces      []time.Duration // of the last 16 rounds, as pace counts them
	pacedRound uint64
}

// enrolling: the terms are open, so fewer sessions are there than any of them asks for.
func (o *opening) enrolling() {
	w := Waiting{Kind: WaitPeers}
	for _, p := range o.lineup.roster() {
		if need := int(p.session.Terms.MinPeers); w.Need == 0 || need < w.Need {
			w.Need = need
		}
		if p.live {
			w.Have = append(w.Have, p.session.Node)
		} else {
			w.Lost = append(w.Lost, p.session.Node)
		}
	}
	if w.Need == 0 {
		w.Kind, o.times.belowSince = WaitSessions, time.Time{} // Who comes next has the whole time.
	} else if o.below(&w) {
		return
	}
	o.answer.wait(w)
}

// plan decides whether the next round begins.
func (o *opening) plan() {
	var enrolled, ready, pick, late, lost, sitting []string
	var picked, all []peer
	for _, p := range o.lineup.roster() {
		node := p.session.Node
		if !p.live {
			lost = append(lost, node) // Known to be dead: nobody waits for it.
			continue
		}
		enrolled = append(enrolled, node)
		if p.ready {
			ready, all = append(ready, node), append(all, p)
		}
		switch {
		case p.sitting:
			sitting = append(sitting, node)
		case p.ready:
			pick, picked = append(pick, node), append(picked, p)
		default:
			late = append(late, node)
		}
	}
	need, unasked := int(o.facts.c.Terms.MinPeers), len(pick)
	picked = o.lineup.mutual(picked)
	pick = peerNodes(picked)
	parts := o.lineup.participants(picked)
	if !o.lineup.carries(parts) && len(ready) > len(pick) {
		all = o.lineup.mutual(all)
		if more := o.lineup.participants(all); o.lineup.carries(more) {
			pick, parts, sitting = peerNodes(all), more, nil // Who sits out is needed after all.
		}
	}
	base := Waiting{Have: pick, For: late, Lost: lost, Sitting: sitting, Need: need, Detail: o.facts.c.PendingReason}
	if len(pick) < need {
		if unasked >= need {
			base.Kind, base.Have, base.Rule = WaitRefusal, ready, "too few peers accept one another: "+refusing(o.facts.refusals(ready))
			if apart := o.facts.neverMet(ready); len(apart) > 0 {
				base.Kind, base.Rule = WaitApart, "too few peers reach one another: "+unreaching(apart)
			}
			o.times.readySince = time.Time{}
			o.holdOn(base)
			return
		}
		o.tooFew(base, enrolled)
		return
	}
	o.times.belowSince = time.Time{}
	if weight(parts) > 0 {
		if err := o.facts.checkPlan(parts); err != nil {
			o.ruled(base, err)
			return
		}
	} else if o.facts.c.Halt.Ending() && len(late)+len(sitting)+len(lost) > 0 {
		o.weightless(base)
		return
	}
	o.times.finalSince = time.Time{}
	if o.times.readySince.IsZero() {
		o.times.readySince = o.facts.in.Now
		o.pace()
	}
	if w, wait := o.quorum(base); wait {
		o.answer.wait(w)
		return
	}
	o.start(base, parts)
}

// tooFew waits below minPeers.
func (o *opening) tooFew(w Waiting, enrolled []string) {
	o.times.readySince = time.Time{}
	w.Kind = WaitTraining
	switch {
	case len(enrolled)+len(w.Lost) == 0:
		w.Kind = WaitSessions
	case len(enrolled) < w.Need:
		w.Kind, w.Have, w.For = WaitPeers, enrolled, w.Lost
	}
	if w.Kind != WaitPeers {
		o.times.belowSince = time.Time{}
	} else {
		o.tries.failSince = time.Time{} // Who comes back has the whole grace, however long ago the last attempt stalled.
		if o.below(&w) {
			return
		}
	}
	o.holdOn(w)
}

// quorum reports whether a round that has minPeers waits for more, and for whom. The expected number of peers is a matter of
// the first round only, which waits for so many and goes at once with so many. Later rounds wait a little for whoever is there:
// one that came after the first round, just behind the others' step, would be just too late in all of them.
func (o *opening) quorum(w Waiting) (Waiting, bool) {
	if o.facts.c.Halt.Ending() && len(w.For) > 0 {
		w.Kind, w.Since, w.Until = WaitTraining, o.times.readySince, o.endsBy()
		return w, o.facts.in.Now.Before(w.Until)
	}
	expected := int(o.facts.c.Expected()) - len(w.Sitting) - o.facts.left()
	first := o.facts.c.Committed == nil
	missing := first && len(w.Have) < expected
	enough := expected > 0 && len(w.Have) >= expected
	if len(w.For) == 0 && !missing || first && enough {
		return w, false
	}
	w.Since = o.times.readySince
	w.Until = w.Since.Add(o.quorumWait(enough))
	if !o.facts.in.Now.Before(w.Until) {
		return w, false
	}
	w.Kind = WaitTraining
	if missing && len(w.For) == 0 {
		w.Kind, w.Need = WaitExpected, expected
	}
	return w, true
}

// quorumWait is the full wait in the first and every fifth round, so that slow peers are heard; in between no more than
// twice the usual time between rounds. That time is counted without the waits themselves: otherwise one slow peer would
// set the pace of all, as every wait for it would lengthen the next.
// Where enough are ready, as many as are expected, who comes on top may be half a round late and is not waited for any longer.
func (o *opening) quorumWait(enough bool) time.Duration {
	full := o.facts.cfg.QuorumWait
	if round := o.facts.c.Round() + 1; round == 1 || round%5 == 0 && !enough {
		return full
	}
	paces := slices.Sorted(slices.Values(o.times.paces))
	if len(paces) == 0 {
		return full
	}
	usual := paces[(len(paces)-1)/2]
	if median := time.Duration(o.facts.c.MedianIntervalMS()) * time.Millisecond; median > 0 {
		usual = min(usual, median)
	}
	if enough {
		return min(full, usual/2)
	}
	return min(full, 2*usual)
}

// pace notes how long this round would have taken without waiting for more than minPeers: from the last commit until
// minPeers were ready, and as long for the merge as the last one took.
func (o *opening) pace() {
	last := o.facts.c.Committed
	if last == nil || o.times.pacedRound == o.facts.round() {
		return
	}
	ms := max(0, o.facts.in.Now.UnixMilli()-last.CommittedMS) + max(0, last.CommittedMS-last.PlannedMS)
	o.times.pacedRound = o.facts.round()
	o.times.paces = append(o.times.paces, time.Duration(ms)*time.Millisecond)
	o.times.paces = o.times.paces[max(0, len(o.times.paces)-16):]
}

// start proposes the first attempt, or the next one after a cancelled plan.
func (o *opening) start(w Waiting, parts []state.Participant) {
	switch {
	case weight(parts) > 0:
		o.planRound(parts, o.facts.c.FinalDue(), "")
	case o.facts.c.FinalDue() && o.facts.c.HasModel():
		o.answer.finish("all peers have weight 0")
	case o.facts.c.HasModel() || len(w.For) > 0 || len(w.Sitting) > 0:
		w.Kind = WaitWeight
		o.answer.wait(w)
	default:
		o.answer.fail("failed: all peers have weight 0, so that there is no first model; give at least one a nodeWeightage above 0", false)
	}
}

func weight(parts []state.Participant) uint64 {
	sum := uint64(0)
	for _, p := range parts {
		sum += uint64(p.Weight)
	}
	return sum
}

// ruled waits because a rule forbids the round that could be held.
func (o *opening) ruled(w Waiting, err error) {
	o.times.readySince = time.Time{}
	switch state.ReasonOf(err) {
	case state.ReasonRequired:
		w.Kind = WaitRequired
	case state.ReasonWeightShare:
		w.Kind = WaitShare
	case state.ReasonWeightCap:
		w.Kind = WaitCap
	case state.ReasonNoOwner:
		w.Kind = WaitOwners
	case state.ReasonWitnesses:
		w.Kind = WaitWitnesses
	default:
		w.Kind = WaitMethod
	}
	w.Rule = err.Error()
	o.holdOn(w)
}

// below counts the time below minPeers if a rule bounds it, and ends all sessions when it is over; then it is true.
func (o *opening) below(w *Waiting) bool {
	if o.facts.c.Rules == nil || o.facts.c.Rules.MinPeersTimeoutMS == 0 || o.facts.c.Halt.Ending() { // it ends anyway
		return false
	}
	if o.times.belowSince.IsZero() {
		o.times.belowSince = o.facts.in.Now
	}
	limit := time.Duration(o.facts.c.Rules.MinPeersTimeoutMS) * time.Millisecond
	if w.Until = o.times.belowSince.Add(limit); o.facts.in.Now.Before(w.Until) {
		w.Fails = true
		return false
	}
	o.answer.fail(fmt.Sprintf("failed: fewer than minPeers for %s, as long as the contract's rules allow: %d of %d were there", limit, len(w.Have), w.Need), true)
	return true
}

// planRound proposes the next attempt with these participants, or what must come before it.
func (o *opening) planRound(parts []state.Participant, final bool, reason string) {
	allotted, err := o.facts.in.View.Allot(o.facts.c, parts)
	if err != nil {
		o.third(parts, final, reason)
		return
	}
	o.times.ownersSince = time.Time{}
	epoch := max(o.facts.c.Epoch(), o.tries.epoch)
	o.answer.propose(state.PlanRound{
		Contract: o.facts.c.Name, Run: o.facts.c.Run, Round: o.facts.c.Round() + 1, Attempt: o.facts.c.Attempt + 1, Participants: allotted,
		Final: final, Reason: reason, AtMS: o.facts.in.Now.UnixMilli(), Epoch: epoch, Allotted: true,
	}, fmt.Sprintf("plan of round %d (attempt %d)", o.facts.c.Round()+1, o.facts.c.Attempt+1))
}

// third deals with leaves whose two owners are gone. What programs that train have sent to them is given up with the round: they
// go on training, and offer anew. What is frozen, as a closed session's, can only count 0.
func (o *opening) third(parts []state.Participant, final bool, reason string) {
	gone := o.facts.gonePairs(parts)
	why := strings.Join(gone, ", ") + " had leaves of this round that may go to no third owner"
	frozen := slices.Clone(parts)
	for i, p := range frozen {
		if p.Weight == 0 || !o.facts.c.Sent(p) {
			continue
		}
		if s := o.facts.c.Sessions[p.Session]; s != nil && s.State == state.SessionOpen {
			for _, n := range gone {
				o.out.causesSkip(n, o.facts.c.Attempt)
			}
			o.answer.skip(o.lineup.offers(), why)
			return
		}
		frozen[i].Weight = 0
		if o.lineup.void == nil {
			o.lineup.void = map[string]bool{}
		}
		o.lineup.void[p.Session] = true // also where weights are made anew
	}
	if frozen = o.lineup.fit(frozen); o.lineup.carries(frozen) {
		o.planRound(frozen, final, reason)
		return
	}
	if p := o.facts.c.Plan; p != nil {
		o.answer.cancel(why)
		return
	}
	if o.times.ownersSince.IsZero() {
		o.times.ownersSince = o.facts.in.Now
	}
	if o.facts.c.FinalDue() && !o.facts.c.HasModel() && o.facts.in.Now.Sub(o.times.ownersSince) >= o.facts.cfg.QuorumWait {
		o.answer.fail("failed: no first model: "+why, false)
		return
	}
	o.times.finalSince = o.times.ownersSince
	o.holdOn(Waiting{Kind: WaitOwners, Have: nodesOf(parts), Need: int(o.facts.c.Terms.MinPeers), Rule: why, Detail: o.facts.c.PendingReason})
}
