package planner

import (
	"math"
	"slices"

	"github.com/swarmd/swarmd/consensus/planner/weightcap"
	"github.com/swarmd/swarmd/consensus/state"
)

// lineup says who could take part in a round: which sessions are ready, and with which weights they would go in.
type lineup struct {
	facts *facts
	out   *exclusions
	void  map[string]bool // sessions whose contributions can only count 0 in this decision
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
func (l *lineup) roster() []peer {
	active := l.facts.c.Active()
	peers := make([]peer, 0, len(active))
	for _, s := range active {
		n := l.facts.in.View.Nodes[s.Node]
		p := peer{session: s, live: n != nil && n.Live, sitting: l.out.sitting(s.Node)}
		if s.State == state.SessionClosed {
			l.judgeClosed(&p)
		} else {
			l.judgeOpen(&p)
		}
		p.weight = l.oneWeight(&p)
		peers = append(peers, p)
	}
	return peers
}

// oneWeight is the weight that counts for a peer. Where a rule demands a share of the enrolled weight it is that with which it
// enrolled, if it contributes at all: who enrolled with much and brings little, or the other way, would satisfy the rule for nothing.
func (l *lineup) oneWeight(p *peer) uint32 {
	if l.facts.c.Rules != nil && l.facts.c.Rules.MinWeightSharePPM > 0 && p.weight > 0 {
		return p.session.Weight
	}
	return min(p.weight, p.session.Terms.MaxWeight())
}

// judgeOpen: an open session is ready when it waits for a round with weights that were trained from the last model.
func (l *lineup) judgeOpen(p *peer) {
	r := l.facts.in.Reports[p.session.ID].Ready
	if r == nil || r.Seq <= max(p.session.LastSeq, p.session.SkippedSeq) {
		return // Not ready, or a report that a round, or a skipped one, has answered already.
	}
	p.ready, p.heard, p.seq, p.weight, p.norm = l.facts.onBase(r), true, r.Seq, r.Weight, r.UpdateNorm
}

// judgeClosed: a closed session is ready unless it says otherwise: it can't take part while it fetches the last model. As
// snapshot its base does not matter; as active it must hold the last model.
func (l *lineup) judgeClosed(p *peer) {
	p.ready, p.seq, p.weight = true, max(p.session.LastSeq, p.session.ClosedSeq)+1, p.session.Weight
	report := l.facts.in.Reports[p.session.ID]
	if report.Ready == nil && !report.At.IsZero() {
		p.ready = false
	}
	if r := report.Ready; r != nil {
		// A norm counts from a model: one from before the last commit says nothing of now.
		p.heard = l.facts.method == nil || !l.facts.method.BoundsNorms() || l.facts.onBase(r)
		p.seq, p.weight, p.norm = max(r.Seq, p.seq), r.Weight, r.UpdateNorm
		if p.session.CheckinMode == state.CheckinActive {
			p.ready = l.facts.onBase(r)
		}
	}
	if p.session.CheckinMode == state.CheckinInactive {
		p.weight = 0
	}
	if !p.heard && p.weight > 0 && l.facts.method != nil && l.facts.method.BoundsNorms() {
		p.ready = false // how much it would change the model is not known
	}
}

// participants makes a plan's participants of peers, in their order.
func (l *lineup) participants(peers []peer) []state.Participant {
	parts := make([]state.Participant, 0, len(peers))
	for _, p := range peers {
		parts = append(parts, state.Participant{Session: p.session.ID, Node: p.session.Node, Weight: p.weight, Seq: p.seq})
	}
	return l.fit(parts)
}

// weigh returns the participants with weights under the contract's cap and the factors of a method that bounds updates. Both
// depend on who else takes part, so they are made anew for each attempt from what the peers say, or, where one says nothing
// now, from the plan before. Those who rest count 0.
func (l *lineup) weigh(parts []state.Participant, rest map[string]bool) []state.Participant {
	parts = slices.Clone(parts)
	none := func(p state.Participant) bool { return l.spent(p) || rest[p.Session] }
	for i, p := range parts {
		if none(p) {
			parts[i].Weight = 0
		}
	}
	ppm := uint32(0)
	if l.facts.c.Rules != nil {
		ppm = l.facts.c.Rules.WeightCapPPM
	}
	bounds := l.facts.method != nil && l.facts.method.BoundsNorms()
	if ppm == 0 && !bounds {
		return parts
	}
	said := map[string]peer{}
	for _, p := range l.roster() {
		said[p.session.ID] = p
	}
	all := !slices.ContainsFunc(parts, func(p state.Participant) bool { return !said[p.Session].ready })
	weights := make([]uint32, len(parts))
	for i := range parts {
		if all {
			if !none(parts[i]) {
				parts[i].Weight = said[parts[i].Session].weight
			}
			parts[i].NormBits = normBits(said[parts[i].Session].norm, bounds)
		}
		weights[i] = parts[i].Weight
	}
	for i, w := range weightcap.Apply(weights, ppm) {
		parts[i].Weight = w
	}
	if bounds {
		l.bound(parts)
	}
	return parts
}

// spent reports whether a participant's contribution must count 0, since two owners may have leaves that others own now.
func (l *lineup) spent(p state.Participant) bool {
	return l.facts.c.Spent(p) || l.out.frozen[p.Session] || l.void[p.Session]
}

// bound sets the factors of all who contribute.
func (l *lineup) bound(parts []state.Participant) {
	var weights []uint32
	var norms []float64
	for _, p := range parts {
		if p.Weight > 0 {
			weights, norms = append(weights, p.Weight), append(norms, math.Float64frombits(p.NormBits))
		}
	}
	if len(weights) == 0 {
		return
	}
	factors := l.facts.method.Factors(weights, norms)
	for i := range parts {
		parts[i].FactorBits = 0
		if parts[i].Weight > 0 && len(factors) > 0 {
			parts[i].FactorBits, factors = math.Float64bits(factors[0]), factors[1:]
		}
	}
}

// carries reports whether these could hold a round.
func (l *lineup) carries(parts []state.Participant) bool {
	return len(parts) >= int(l.facts.c.Terms.MinPeers) && weight(parts) > 0 && l.facts.checkPlan(parts) == nil
}

// offers are the Syncs that wait for this round, by session: of all who are ready, and of those whom an attempt has asked for
// leaves already, whatever they say now.
func (l *lineup) offers() map[string]uint64 {
	out := map[string]uint64{}
	for _, p := range l.roster() {
		if p.ready && p.session.State == state.SessionOpen {
			out[p.session.ID] = p.seq
		}
	}
	if l.facts.c.Due != nil {
		for id, seq := range l.facts.c.Due.Sent {
			s := l.facts.c.Sessions[id]
			if s != nil && s.State == state.SessionOpen && seq > max(s.LastSeq, s.SkippedSeq) {
				out[id] = max(out[id], seq)
			}
		}
	}
	return out
}
