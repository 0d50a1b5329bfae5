package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// attempt follows the running attempt.
func (d *decider) attempt() {
	d.notes()
	if d.banned() {
		_, why := d.gone()
		d.without(why) // also when all is done: nothing of a banned node is committed
		return
	}
	if d.spentAtPeers() {
		return
	}
	if node := d.renewed(); node != "" {
		d.without(node + " has a SPIFFE ID of its own now")
		return
	}
	done, failures, pending := d.gather()
	if len(done) == len(d.c.Plan.Participants) && !d.ask(done) {
		if v := d.disagree(done); len(v.failures) > 0 {
			d.contradicted()
			d.failed(v, nil)
			return
		}
		if v := d.overstep(done); len(v.failures) > 0 {
			d.contradicted()
			d.failed(v, nil)
			return
		}
		d.commit(done)
		return
	}
	if gone, why := d.gone(); gone != nil && !d.mayBeThere(gone, pending) {
		d.without(why)
		return
	}
	if d.asking() {
		var silent []string
		done, silent = d.answered(done)
		pending = append(silent, pending...)
	}
	if len(failures) > 0 {
		told := witnessed(failures)
		d.failed(verdict{told, namedNodes(told)}, pending)
		return
	}
	if mute := d.mute(len(done), pending); len(mute) > 0 {
		d.failed(verdict{mute, nil}, nil)
		return
	}
	d.wait(Waiting{Kind: WaitMerging, Attempt: d.c.Plan.Attempt, For: pending, Detail: d.c.PendingReason, Asking: d.asking()})
}

// contradicted notes that the running attempt ended with reports that do not fit together: nothing of it may be resumed.
func (d *decider) contradicted() {
	d.mem.disagreed, d.mem.epoch = d.c.Plan.Attempt, d.c.Plan.Epoch+1
}

// gather sorts the participants' reports on the running attempt; pending are those who have said nothing yet.
func (d *decider) gather() (done map[string]*Done, failures []failure, pending []string) {
	p := d.c.Plan
	done = map[string]*Done{}
	for _, part := range p.Participants {
		r := d.in.Reports[part.Session]
		switch {
		case r.Done != nil && r.Done.Round == p.Round && r.Done.Attempt == p.Attempt:
			if len(r.Done.ModelDigest) != 64 || strings.Trim(r.Done.ModelDigest, "0123456789abcdef") != "" {
				failures = append(failures, failure{node: part.Node, blamed: part.Node, reason: "reported a malformed digest", at: r.At, proof: true})
				continue
			}
			done[part.Session] = r.Done
		case r.Failed != nil && r.Failed.Round == p.Round && r.Failed.Attempt == p.Attempt:
			failures = append(failures, failure{
				node: part.Node, blamed: d.planned(r.Failed.Blamed), from: d.planned(r.Failed.HeardFrom), reason: r.Failed.Reason, at: r.FailedAt,
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
func (d *decider) mute(done int, pending []string) (failures []failure) {
	p := d.c.Plan
	if 2*done < len(p.Participants) {
		return nil
	}
	if d.mem.doneIn != p.Attempt {
		d.mem.doneIn, d.mem.doneSince = p.Attempt, d.in.Now
	}
	took := max(0, d.mem.doneSince.Sub(time.UnixMilli(p.PlannedMS)))
	since, reason := d.mem.doneSince, "reports neither success nor failure, and others have long finished"
	if d.asking() {
		if d.mem.asked.since.IsZero() {
			d.mem.asked.since = d.in.Now
		}
		since, reason = d.mem.asked.since, "does not say what it got of each owner, though digests differ and others have long said it"
	}
	if d.in.Now.Sub(since) < took+d.cfg.StallGrace {
		return nil
	}
	if d.mem.failSince.IsZero() {
		d.mem.failSince = since // That was the grace.
	}
	for _, node := range pending {
		failures = append(failures, failure{node: node, alone: true, at: since, reason: reason})
	}
	return failures
}

// planned returns the name of a node that takes part in the running attempt, of others none.
func (d *decider) planned(node string) string {
	if slices.ContainsFunc(d.c.Plan.Participants, func(p state.Participant) bool { return p.Node == node }) {
		return node
	}
	return ""
}

func (d *decider) commit(done map[string]*Done) {
	p := d.c.Plan
	first := done[p.Participants[0].Session] // the digests of the others are the same
	signatures := make([][]byte, 0, len(p.Participants))
	for _, part := range p.Participants {
		signatures = append(signatures, done[part.Session].Signature)
	}
	d.propose(state.CommitRound{
		Contract: d.c.Name, Run: d.c.Run, Round: p.Round, Attempt: p.Attempt,
		Digest: first.ModelDigest, NextInterval: d.nextInterval(), AtMS: d.in.Now.UnixMilli(),
		StateDigest: first.StateDigest, ShardsDigest: first.ShardsDigest, Signatures: signatures,
	}, fmt.Sprintf("round %d", p.Round))
}

// banned reports whether a participant was banned since the attempt was planned.
func (d *decider) banned() bool {
	return slices.ContainsFunc(d.c.Plan.Participants, func(p state.Participant) bool {
		s := d.c.Sessions[p.Session]
		return s != nil && s.EndReason == state.EndBanned
	})
}

// renewed names a participant that had a SPIFFE ID with others when the attempt was planned, and has its own now. Witnesses are told
// apart by it, so what participants sign of the plan depends on when they have seen it.
func (d *decider) renewed() string {
	p := d.c.Plan
	for _, part := range p.Participants {
		n := d.in.View.Nodes[part.Node]
		if p.Witnesses > 0 && part.SPIFFEID == "" && n != nil && state.OwnID(n.SPIFFEID) {
			return part.Node
		}
	}
	return ""
}

// without repeats the attempt without those who are gone or excluded, or gives it up when too few remain.
func (d *decider) without(reason string) {
	p := d.c.Plan
	out, _ := d.gone()
	parts := make([]state.Participant, 0, len(p.Participants))
	for _, part := range p.Participants {
		if !slices.Contains(out, part.Node) && !slices.Contains(d.mem.excluded, part.Node) {
			parts = append(parts, part)
		}
	}
	if parts = d.fit(d.mutualParts(parts)); d.carries(parts) && d.mem.recalled != p.Attempt { // Who comes back is in no attempt yet.
		// Who closes meanwhile is not in it, so it does not become final; who comes back to train makes it one like the others.
		d.planRound(parts, p.Final && d.c.FinalDue(), reason)
		return
	}
	d.cancel(reason)
}

// failed judges a failed attempt once, after a short while in which the others may report too, and repeats it after a
// pause.
func (d *decider) failed(v verdict, pending []string) {
	p, failures := d.c.Plan, v.failures
	if d.mem.evaluated != p.Attempt {
		first := failures[0].at
		for _, f := range failures {
			if f.at.Before(first) {
				first = f.at
			}
		}
		if len(pending) > 0 && d.in.Now.Sub(first) < d.cfg.Gather {
			d.wait(Waiting{Kind: WaitMerging, Attempt: p.Attempt, For: pending, Detail: describe(failures)})
			return
		}
		d.judge(v)
	}
	if d.in.Now.Before(d.mem.notBefore) {
		d.wait(Waiting{Kind: WaitRetry, Attempt: p.Attempt, Detail: d.mem.reason, Until: d.mem.notBefore})
		return
	}
	d.without(d.mem.reason)
}

// judge decides who takes part in the next attempt and when it begins.
func (d *decider) judge(v verdict) {
	p, failures, named := d.c.Plan, v.failures, v.named
	d.mem.evaluated, d.mem.reason = p.Attempt, describe(failures)
	if d.mem.failSince.IsZero() {
		d.mem.failSince = d.in.Now
	}
	pause := d.cfg.BackoffMax
	if d.mem.failures < 16 {
		pause = min(pause, d.cfg.BackoffMin<<d.mem.failures)
	}
	d.mem.failures++
	d.mem.notBefore = d.in.Now.Add(pause)
	for _, f := range failures {
		if f.blamed != "" && f.blamed != f.node {
			d.mem.breaks(f.node, f.blamed)
		}
	}

	var out []string
	if d.mem.namedAttempt+1 == p.Attempt {
		for _, node := range named {
			if slices.Contains(d.mem.named, node) {
				out = append(out, node)
			}
		}
	}
	d.mem.named, d.mem.namedAttempt = named, p.Attempt
	if d.mem.disagreed == p.Attempt {
		for _, f := range failures {
			d.mem.unsettled(f.node)
			if f.blamed != "" {
				d.mem.unsettled(f.blamed)
			}
		}
		if doubted := d.mem.doubted(nodesOf(p.Participants)); len(out) == 0 && d.enoughWithout(doubted) {
			out = doubted
		}
	}
	if len(out) == 0 && d.mem.notBefore.Sub(d.mem.failSince) >= d.cfg.StallGrace { // when the next attempt begins
		if d.pairDisagrees(named) {
			d.mem.breaks(p.Participants[0].Node, p.Participants[1].Node)
			d.recall(failures)
			return
		}
		out = d.unconnected(failures)
	}
	switch {
	case len(out) == 0:
	case d.enoughWithout(out):
		for _, node := range out {
			d.mem.exclude(node)
		}
	default:
		d.recall(failures)
	}
	d.proves(failures, named)
}

// pairDisagrees reports whether two alone reported what does not fit together, so that none of them can be named: their places in
// the plan say nothing of who is wrong, so neither is left out for the other's sake.
func (d *decider) pairDisagrees(named []string) bool {
	return d.mem.disagreed == d.c.Plan.Attempt && len(d.c.Plan.Participants) == 2 && len(named) == 0
}

// proves notes who of those named is left out by its own word or signature. That two name a third proves nothing, as two liars can;
// and their links to it have broken.
func (d *decider) proves(failures []failure, named []string) {
	for _, f := range failures {
		out := f.proof && slices.Contains(named, f.node) && slices.Contains(d.mem.excluded, f.node)
		if out && !slices.Contains(d.mem.proven, f.node) {
			d.mem.proven = append(d.mem.proven, f.node)
		}
	}
}

// enoughWithout reports whether the attempt could go on without some nodes.
func (d *decider) enoughWithout(out []string) bool {
	var rest []state.Participant
	for _, part := range d.c.Plan.Participants {
		if !slices.Contains(out, part.Node) && !slices.Contains(d.mem.excluded, part.Node) {
			rest = append(rest, part)
		}
	}
	return d.carries(d.fit(rest))
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
