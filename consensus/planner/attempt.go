package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
)

// sitOutRounds is how many rounds a node sits out for what it was blamed for.
const sitOutRounds = 3

// failure is one participant's report that the running attempt failed.
type failure struct {
	node, blamed, reason string
	from                 string // the participant that it heard it from; empty: it has seen it itself
	alone                bool   // it could not go on and blames nobody
	proof                bool   // its own word or signature proves it
	at                   time.Time
	line                 string // all of it in words; empty: node, blamed and reason say it
}

// attempt follows the running attempt: it commits the round, or has it tried again.
type attempt struct {
	facts      *facts
	lineup     *lineup
	answer     *answer
	opening    *opening
	blame      *blame
	comparison *comparison
	interval   *interval
	tries      *attempts
	out        *exclusions
}

// attempts are what is known of the round's attempts so far.
type attempts struct {
	evaluated uint64    // the failed attempt whose reports were judged
	failSince time.Time // the round's first failure
	fewSince  time.Time // since too few were left of an attempt of the final round that an operator asked for
	failures  int
	notBefore time.Time     // earliest time of the next attempt
	reason    string        // why the attempt failed
	disagreed uint64        // the attempt that ended with different digests; 0: none
	epoch     uint64        // the least that the next attempt may have, as nothing of the last one may be resumed
	doneSince time.Time     // since when half have finished the running attempt
	doneIn    uint64        // that attempt
	asked     asked         // what the participants of an attempt were asked
	plans     []*state.Plan // the last attempts, if their parts had witnesses
}

// advance does what is due now.
func (at *attempt) advance() {
	at.notes()
	if at.facts.banned() {
		_, why := at.facts.gone()
		at.without(why) // also when all is done: nothing of a banned node is committed
		return
	}
	if at.spentAtPeers() {
		return
	}
	if node := at.facts.renewed(); node != "" {
		at.without(node + " has a SPIFFE ID of its own now")
		return
	}
	done, failures, pending := at.collect()
	if len(done) == len(at.facts.c.Plan.Participants) && !at.ask(done) {
		if v := at.comparison.disagree(done); len(v.failures) > 0 {
			at.contradicted()
			at.failed(v, nil)
			return
		}
		if v := at.comparison.overstep(done); len(v.failures) > 0 {
			at.contradicted()
			at.failed(v, nil)
			return
		}
		at.commit(done)
		return
	}
	if gone, why := at.facts.gone(); gone != nil && !at.facts.mayBeThere(gone, pending) {
		at.without(why)
		return
	}
	if at.tries.asked.of(at.facts.c.Plan) {
		var silent []string
		done, silent = at.answered(done)
		pending = append(silent, pending...)
	}
	if len(failures) > 0 {
		told := witnessed(failures)
		at.failed(verdict{told, namedNodes(told)}, pending)
		return
	}
	if mute := at.mute(len(done), pending); len(mute) > 0 {
		at.failed(verdict{mute, nil}, nil)
		return
	}
	at.answer.wait(Waiting{Kind: WaitMerging, Attempt: at.facts.c.Plan.Attempt, For: pending, Detail: at.facts.c.PendingReason, Asking: at.tries.asked.of(at.facts.c.Plan)})
}

// contradicted notes that the running attempt ended with reports that do not fit together: nothing of it may be resumed.
func (at *attempt) contradicted() {
	at.tries.disagreed, at.tries.epoch = at.facts.c.Plan.Attempt, at.facts.c.Plan.Epoch+1
}

// collect sorts the participants' reports on the running attempt; pending are those who have said nothing yet.
func (at *attempt) collect() (done map[string]reports.Report, failures []failure, pending []string) {
	p := at.facts.c.Plan
	done = map[string]reports.Report{}
	for _, part := range p.Participants {
		r := at.facts.in.Reports[part.Session]
		switch {
		case r.Done != nil && r.Done.Round == p.Round && r.Done.Attempt == p.Attempt:
			if len(r.Done.ModelDigest) != 64 || strings.Trim(r.Done.ModelDigest, "0123456789abcdef") != "" {
				failures = append(failures, failure{node: part.Node, blamed: part.Node, reason: "reported a malformed digest", at: r.At, proof: true})
				continue
			}
			done[part.Session] = r
		case r.Failed != nil && r.Failed.Round == p.Round && r.Failed.Attempt == p.Attempt:
			failures = append(failures, failure{
				node: part.Node, blamed: at.facts.planned(r.Failed.Blamed), from: at.facts.planned(r.Failed.HeardFrom), reason: r.Failed.Reason, at: r.FailedAt,
				proof: r.Failed.Blamed == part.Node,
			})
		default:
			pending = append(pending, part.Node)
		}
	}
	return done, failures, pending
}

// mute returns as failures those who live and report neither success nor failure though half of all have long finished: fewer
// could be liars, rid of everybody whose merge takes longer than the grace. Who has finished has every owner's leaves, so all
// owners have merged: what the others can still lack are merged leaves, and these travel the links that as many bytes of
// contributions have travelled before. Hence an honest one needs about as long again as the attempt has taken, and has it,
// with the grace on top; for its own streams it has the stall time anyway. Who was asked what it got, and does not say it, is silent too:
// for that there is as long again.
func (at *attempt) mute(done int, pending []string) (failures []failure) {
	p := at.facts.c.Plan
	if 2*done < len(p.Participants) {
		return nil
	}
	if at.tries.doneIn != p.Attempt {
		at.tries.doneIn, at.tries.doneSince = p.Attempt, at.facts.in.Now
	}
	took := max(0, at.tries.doneSince.Sub(time.UnixMilli(p.PlannedMS)))
	since, reason := at.tries.doneSince, "reports neither success nor failure, and others have long finished"
	if at.tries.asked.of(at.facts.c.Plan) {
		if at.tries.asked.since.IsZero() {
			at.tries.asked.since = at.facts.in.Now
		}
		since, reason = at.tries.asked.since, "does not say what it got of each owner, though digests differ and others have long said it"
	}
	if at.facts.in.Now.Sub(since) < took+at.facts.cfg.StallGrace {
		return nil
	}
	if at.tries.failSince.IsZero() {
		at.tries.failSince = since // That was the grace.
	}
	for _, node := range pending {
		failures = append(failures, failure{node: node, alone: true, at: since, reason: reason})
	}
	return failures
}

func (at *attempt) commit(done map[string]reports.Report) {
	p := at.facts.c.Plan
	first := done[p.Participants[0].Session].Done // the digests of the others are the same
	signatures := make([][]byte, 0, len(p.Participants))
	for _, part := range p.Participants {
		signatures = append(signatures, done[part.Session].Done.Signature)
	}
	at.answer.propose(state.CommitRound{
		Contract: at.facts.c.Name, Run: at.facts.c.Run, Round: p.Round, Attempt: p.Attempt,
		Digest: first.ModelDigest, NextInterval: at.interval.nextInterval(), AtMS: at.facts.in.Now.UnixMilli(),
		StateDigest: first.StateDigest, ShardsDigest: first.ShardsDigest, Signatures: signatures, KeepCounted: p.KeepsCounted(at.facts.c),
	}, fmt.Sprintf("round %d", p.Round))
}

// without repeats the attempt without those who are gone or excluded, or gives it up when too few remain or an operator has paused the
// contract.
func (at *attempt) without(reason string) {
	if at.facts.c.Halt.Pauses() {
		at.answer.cancel(reason)
		return
	}
	p := at.facts.c.Plan
	out, _ := at.facts.gone()
	parts := make([]state.Participant, 0, len(p.Participants))
	for _, part := range p.Participants {
		if !slices.Contains(out, part.Node) && !slices.Contains(at.out.excluded, part.Node) {
			parts = append(parts, part)
		}
	}
	parts = at.lineup.fit(at.facts.mutualParts(parts))
	back := at.out.readmittedIn == p.Attempt // Who comes back is in no attempt yet.
	again := at.lineup.carries(parts) && !back
	if at.vain(!again && !back) && (!again || len(parts) == len(p.Participants)) {
		at.opening.giveUp(reason)
		return
	}
	if again {
		// Who closes meanwhile is not in it, so it does not become final; who comes back to train makes it one like the others.
		at.opening.planRound(parts, p.Final && at.facts.c.FinalDue(), reason)
		return
	}
	at.answer.cancel(reason)
}

// failed judges a failed attempt once, after a short while in which the others may report too, and repeats it after a
// pause.
func (at *attempt) failed(v verdict, pending []string) {
	p, failures := at.facts.c.Plan, v.failures
	if at.tries.evaluated != p.Attempt {
		first := failures[0].at
		for _, f := range failures {
			if f.at.Before(first) {
				first = f.at
			}
		}
		if len(pending) > 0 && at.facts.in.Now.Sub(first) < at.facts.cfg.Gather {
			at.answer.wait(Waiting{Kind: WaitMerging, Attempt: p.Attempt, For: pending, Detail: describe(failures)})
			return
		}
		at.blame.judge(v)
	}
	if at.facts.in.Now.Before(at.tries.notBefore) {
		at.answer.wait(Waiting{Kind: WaitRetry, Attempt: p.Attempt, Detail: at.tries.reason, Until: at.tries.notBefore})
		return
	}
	at.without(at.tries.reason)
}

// namedNodes returns who was named as the cause by two others that have seen it, or by its own word, sorted.
func namedNodes(failures []failure) []string {
	count := map[string]int{}
	for _, f := range failures {
		switch {
		case f.blamed == "" || f.from != "":
		case f.blamed == f.node:
			count[f.blamed] += 2 // Its own word proves it.
		default:
			count[f.blamed]++
		}
	}
	var named []string
	for node, n := range count {
		if n >= 2 {
			named = append(named, node)
		}
	}
	slices.Sort(named)
	return named
}

// describe names at most three failures.
func describe(failures []failure) string {
	var lines []string
	for i, f := range failures {
		if i == 3 {
			lines = append(lines, fmt.Sprintf("and %d more", len(failures)-i))
			break
		}
		line := f.node
		if f.blamed != "" && f.blamed != f.node {
			line += " could not go on with " + f.blamed
		}
		if f.reason != "" {
			line += ": " + f.reason
		}
		if f.line != "" {
			line = f.line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}
