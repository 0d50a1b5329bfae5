package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/merge"
)

// Inputs are everything that a decision depends on. Decide changes nothing in them.
type Inputs struct {
	Now      time.Time
	View     *state.State
	Contract string
	Reports  map[string]Report // by session, of the contract's current run
	Memory   Memory            // what the last Decision for this contract returned
	Config   Config
	Recent   []state.CommittedRound // of the contract's current run, as far as the leader remembers
	Recorded map[uint64]Held        // by round: the run's models as the ledger has them; nil: not looked up, or not known
	Brief    bool                   // the Decision's Waiting has no Snapshot; nothing else depends on it
}

// Decision is what to do for one contract now.
type Decision struct {
	Command state.Command // to propose; nil: nothing
	Waiting Waiting       // why not more; always set
	Memory  Memory        // for the next call, whether the proposal succeeds or not
}

// decider is one call of Decide.
type decider struct {
	in  Inputs
	cfg Config
	c   *state.Contract
	mem Memory
	out Decision

	method *merge.Method // nil until the terms are fixed
}

// Decide looks at one contract and says what to propose, at most one command, and what is waited for.
//
// When all who are ready have weight 0 there is nothing to merge: a due final round then ends the contract with the last
// model, the first round fails when nobody else could come, any other waits, with that as its reason.
func Decide(in Inputs) Decision {
	c := in.View.Contracts[in.Contract]
	if c == nil {
		return Decision{}
	}
	d := &decider{in: in, cfg: in.Config.withDefaults().under(c), c: c, mem: in.Memory.of(c)}
	if c.Terms != nil {
		d.method, _ = merge.ParseMethod(c.Terms.Method) // as checked when the terms were fixed
	}
	switch {
	case c.Over:
		d.wait(Waiting{Kind: WaitCompleted, Round: c.Round()})
	case d.ahead():
	case c.Plan != nil:
		d.attempt()
	case c.Terms == nil:
		d.enrolling()
	case d.lost():
	default:
		d.plan()
	}
	d.out.Memory = d.mem
	return d.out
}

// wait sets the reason. One that began earlier keeps its time, unless w names its own.
func (d *decider) wait(w Waiting) {
	w.Phase = d.c.Phase()
	if w.Round == 0 {
		w.Round = d.c.Round() + 1
	}
	if key := w.key(); key != d.mem.waitKey {
		d.mem.waitKey, d.mem.waitSince = key, d.in.Now
	}
	if w.Since.IsZero() {
		w.Since = d.mem.waitSince
	}
	if !d.in.Brief {
		w.Snapshot = d.snapshot()
	}
	d.out.Waiting = w
}

func (d *decider) propose(c state.Command, detail string) {
	d.out.Command = c
	d.wait(Waiting{Kind: WaitCommand, Attempt: d.c.Attempt, Detail: detail})
}

// peer is one active session as the leader sees it.
type peer struct {
	session *state.Session
	live    bool
	ready   bool
	sitting bool
	heard   bool // it said so itself
	seq     uint64
	weight  uint32
	norm    float64 // of its update, for methods that bound it
}

// roster judges all active sessions, in the order in which they were opened.
func (d *decider) roster() []peer {
	active := d.c.Active()
	peers := make([]peer, 0, len(active))
	for _, s := range active {
		n := d.in.View.Nodes[s.Node]
		p := peer{session: s, live: n != nil && n.Live, sitting: d.mem.sitting(s.Node)}
		if s.State == state.SessionClosed {
			d.judgeClosed(&p)
		} else {
			d.judgeOpen(&p)
		}
		p.weight = d.oneWeight(&p)
		peers = append(peers, p)
	}
	return peers
}

// oneWeight is the weight that counts for a peer. Where a rule demands a share of the enrolled weight it is that with which it
// enrolled, if it contributes at all: who enrolled with much and brings little, or the other way, would satisfy the rule for nothing.
func (d *decider) oneWeight(p *peer) uint32 {
	if d.c.Rules != nil && d.c.Rules.MinWeightSharePPM > 0 && p.weight > 0 {
		return p.session.Weight
	}
	return min(p.weight, state.MaxWeight)
}

// judgeOpen: an open session is ready when it waits for a round with weights that were trained from the last model.
func (d *decider) judgeOpen(p *peer) {
	r := d.in.Reports[p.session.ID].Ready
	if r == nil || r.Seq <= max(p.session.LastSeq, p.session.SkippedSeq) {
		return // Not ready, or a report that a round, or a skipped one, has answered already.
	}
	p.ready, p.heard, p.seq, p.weight, p.norm = d.onBase(r), true, r.Seq, r.Weight, r.UpdateNorm
}

// judgeClosed: a closed session is ready unless it says otherwise: it can't take part while it fetches the last model. As
// snapshot its base does not matter; as active it must hold the last model.
func (d *decider) judgeClosed(p *peer) {
	p.ready, p.seq, p.weight = true, max(p.session.LastSeq, p.session.ClosedSeq)+1, p.session.Weight
	report := d.in.Reports[p.session.ID]
	if report.Ready == nil && !report.At.IsZero() {
		p.ready = false
	}
	if r := report.Ready; r != nil {
		// A norm counts from a model: one from before the last commit says nothing of now.
		p.heard = d.method == nil || !d.method.Bounds() || d.onBase(r)
		p.seq, p.weight, p.norm = max(r.Seq, p.seq), r.Weight, r.UpdateNorm
		if p.session.CheckinMode == state.CheckinActive {
			p.ready = d.onBase(r)
		}
	}
	if p.session.CheckinMode == state.CheckinInactive {
		p.weight = 0
	}
	if !p.heard && p.weight > 0 && d.method != nil && d.method.Bounds() {
		p.ready = false // how much it would change the model is not known
	}
}

func (d *decider) onBase(r *Ready) bool {
	if d.c.Committed == nil {
		return r.BaseRound == 0
	}
	return r.BaseRound == d.c.Committed.Round && r.BaseDigest == d.c.Committed.Digest
}

// enrolling: the terms are open, so fewer sessions are there than any of them asks for.
func (d *decider) enrolling() {
	w := Waiting{Kind: WaitPeers}
	for _, p := range d.roster() {
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
		w.Kind, d.mem.belowSince = WaitSessions, time.Time{} // Who comes next has the whole time.
	} else if d.below(&w) {
		return
	}
	d.wait(w)
}

// plan decides whether the next round begins.
func (d *decider) plan() {
	var enrolled, ready, pick, late, lost, sitting []string
	var picked, all []peer
	for _, p := range d.roster() {
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
	need, unasked := int(d.c.Terms.MinPeers), len(pick)
	picked = d.mutual(picked)
	pick = peerNodes(picked)
	parts := d.participants(picked)
	if !d.carries(parts) && len(ready) > len(pick) {
		all = d.mutual(all)
		if more := d.participants(all); d.carries(more) {
			pick, parts, sitting = peerNodes(all), more, nil // Who sits out is needed after all.
		}
	}
	base := Waiting{Have: pick, For: late, Lost: lost, Sitting: sitting, Need: need, Detail: d.c.PendingReason}
	if len(pick) < need {
		if unasked >= need {
			base.Kind, base.Have, base.Rule = WaitRefusal, ready, "too few peers accept one another: "+refusing(d.refusals(ready))
			d.mem.readySince = time.Time{}
			d.holdOn(base)
			return
		}
		d.tooFew(base, enrolled)
		return
	}
	d.mem.belowSince = time.Time{}
	if weight(parts) > 0 {
		if err := d.checkPlan(parts); err != nil {
			d.ruled(base, err)
			return
		}
	}
	d.mem.finalSince = time.Time{}
	if d.mem.readySince.IsZero() {
		d.mem.readySince = d.in.Now
		d.pace()
	}
	if w, wait := d.quorum(base); wait {
		d.wait(w)
		return
	}
	d.start(base, parts)
}

// tooFew waits below minPeers.
func (d *decider) tooFew(w Waiting, enrolled []string) {
	d.mem.readySince = time.Time{}
	w.Kind = WaitTraining
	switch {
	case len(enrolled)+len(w.Lost) == 0:
		w.Kind = WaitSessions
	case len(enrolled) < w.Need:
		w.Kind, w.Have, w.For = WaitPeers, enrolled, w.Lost
	}
	if w.Kind != WaitPeers {
		d.mem.belowSince = time.Time{}
	} else {
		d.mem.failSince = time.Time{} // Who comes back has the whole grace, however long ago the last attempt stalled.
		if d.below(&w) {
			return
		}
	}
	d.holdOn(w)
}

// holdOn waits; a final round that can't be held for one quorum wait ends the contract with the last model.
func (d *decider) holdOn(w Waiting) {
	if d.c.FinalDue() && d.c.HasModel() {
		if d.mem.finalSince.IsZero() {
			d.mem.finalSince = d.in.Now
		}
		if w.Until = d.mem.finalSince.Add(d.cfg.QuorumWait); !d.in.Now.Before(w.Until) {
			reason := fmt.Sprintf("%d of %d peers for the final round", len(w.Have), w.Need)
			if w.Rule != "" {
				reason = "no final round: " + w.Rule
			}
			d.finish(reason)
			return
		}
		w.Ends, w.Fails = true, false
	}
	d.wait(w)
}

func (d *decider) finish(reason string) {
	d.propose(state.FinishContract{
		Contract: d.c.Name, Run: d.c.Run, Round: d.c.Round(), Reason: reason, AtMS: d.in.Now.UnixMilli(),
	}, "ending with the model of round "+fmt.Sprint(d.c.Round())+": "+reason)
}

// quorum reports whether a round that has minPeers waits for more, and for whom. The expected number of peers is a matter of
// the first round only, which waits for so many and goes at once with so many. Later rounds wait a little for whoever is there:
// one that came after the first round, just behind the others' step, would be just too late in all of them.
func (d *decider) quorum(w Waiting) (Waiting, bool) {
	expected := int(d.c.Expected()) - len(w.Sitting) - d.left()
	first := d.c.Committed == nil
	missing := first && len(w.Have) < expected
	enough := expected > 0 && len(w.Have) >= expected
	if len(w.For) == 0 && !missing || first && enough {
		return w, false
	}
	w.Since = d.mem.readySince
	w.Until = w.Since.Add(d.quorumWait(enough))
	if !d.in.Now.Before(w.Until) {
		return w, false
	}
	w.Kind = WaitTraining
	if missing && len(w.For) == 0 {
		w.Kind, w.Need = WaitExpected, expected
	}
	return w, true
}

// left counts the nodes that had a session in this run, said goodbye and have not come back: they are not expected.
func (d *decider) left() int {
	left := map[string]bool{}
	for _, s := range d.c.Sessions {
		if n := d.in.View.Nodes[s.Node]; s.Run == d.c.Run && n != nil && n.Left() {
			left[s.Node] = true
		}
	}
	return len(left)
}

// quorumWait is the full wait in the first and every fifth round, so that slow peers are heard; in between no more than
// twice the usual time between rounds. That time is counted without the waits themselves: otherwise one slow peer would
// set the pace of all, as every wait for it would lengthen the next.
// Where enough are ready, as many as are expected, who comes on top may be half a round late and is not waited for any longer.
func (d *decider) quorumWait(enough bool) time.Duration {
	full := d.cfg.QuorumWait
	if round := d.c.Round() + 1; round == 1 || round%5 == 0 && !enough {
		return full
	}
	paces := slices.Sorted(slices.Values(d.mem.paces))
	if len(paces) == 0 {
		return full
	}
	usual := paces[(len(paces)-1)/2]
	if median := time.Duration(d.c.MedianIntervalMS()) * time.Millisecond; median > 0 {
		usual = min(usual, median)
	}
	if enough {
		return min(full, usual/2)
	}
	return min(full, 2*usual)
}

// pace notes how long this round would have taken without waiting for more than minPeers: from the last commit until
// minPeers were ready, and as long for the merge as the last one took.
func (d *decider) pace() {
	last := d.c.Committed
	if last == nil || d.mem.pacedRound == d.mem.round {
		return
	}
	ms := max(0, d.in.Now.UnixMilli()-last.CommittedMS) + max(0, last.CommittedMS-last.PlannedMS)
	d.mem.pacedRound = d.mem.round
	d.mem.paces = append(d.mem.paces, time.Duration(ms)*time.Millisecond)
	d.mem.paces = d.mem.paces[max(0, len(d.mem.paces)-16):]
}

// start proposes the first attempt, or the next one after a cancelled plan.
func (d *decider) start(w Waiting, parts []state.Participant) {
	switch {
	case weight(parts) > 0:
		d.planRound(parts, d.c.FinalDue(), "")
	case d.c.FinalDue() && d.c.HasModel():
		d.finish("all peers have weight 0")
	case d.c.HasModel() || len(w.For) > 0 || len(w.Sitting) > 0:
		w.Kind = WaitWeight
		d.wait(w)
	default:
		d.fail("failed: all peers have weight 0, so that there is no first model; give at least one a nodeWeightage above 0", false)
	}
}

func weight(parts []state.Participant) uint64 {
	sum := uint64(0)
	for _, p := range parts {
		sum += uint64(p.Weight)
	}
	return sum
}
