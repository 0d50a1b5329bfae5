package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// planRound proposes the next attempt with these participants, or what must come before it.
func (d *decider) planRound(parts []state.Participant, final bool, reason string) {
	allotted, err := d.in.View.Allot(d.c, parts)
	if err != nil {
		d.third(parts, final, reason)
		return
	}
	d.mem.ownersSince = time.Time{}
	epoch := max(d.c.Epoch(), d.mem.epoch)
	d.propose(state.PlanRound{
		Contract: d.c.Name, Run: d.c.Run, Round: d.c.Round() + 1, Attempt: d.c.Attempt + 1, Participants: allotted,
		Final: final, Reason: reason, AtMS: d.in.Now.UnixMilli(), Epoch: epoch, Allotted: true,
	}, fmt.Sprintf("plan of round %d (attempt %d)", d.c.Round()+1, d.c.Attempt+1))
}

// third deals with leaves whose two owners are gone. What programs that train have sent to them is given up with the round: they
// go on training, and offer anew. What is frozen, as a closed session's, can only count 0.
func (d *decider) third(parts []state.Participant, final bool, reason string) {
	gone := d.gonePairs(parts)
	why := strings.Join(gone, ", ") + " had leaves of this round that may go to no third owner"
	frozen := slices.Clone(parts)
	for i, p := range frozen {
		if p.Weight == 0 || !d.c.Sent(p) {
			continue
		}
		if s := d.c.Sessions[p.Session]; s != nil && s.State == state.SessionOpen {
			for _, n := range gone {
				d.mem.causesSkip(n, d.c.Attempt)
			}
			d.skip(d.offers(), why)
			return
		}
		frozen[i].Weight = 0
	}
	if frozen = d.fit(frozen); d.carries(frozen) {
		d.planRound(frozen, final, reason)
		return
	}
	if p := d.c.Plan; p != nil {
		d.cancel(why)
		return
	}
	if d.mem.ownersSince.IsZero() {
		d.mem.ownersSince = d.in.Now
	}
	if d.c.FinalDue() && !d.c.HasModel() && d.in.Now.Sub(d.mem.ownersSince) >= d.cfg.QuorumWait {
		d.fail("failed: no first model: "+why, false)
		return
	}
	d.mem.finalSince = d.mem.ownersSince
	d.holdOn(Waiting{Kind: WaitOwners, Have: nodesOf(parts), Need: int(d.c.Terms.MinPeers), Rule: why, Detail: d.c.PendingReason})
}

// gonePairs names the owners of leaves of which neither is among the participants.
func (d *decider) gonePairs(parts []state.Participant) []string {
	names, there := map[string]string{}, map[string]bool{}
	for _, n := range d.in.View.Nodes {
		names[n.PeerID] = n.Name
	}
	for _, p := range parts {
		if n := d.in.View.Nodes[p.Node]; n != nil {
			there[n.PeerID] = true
		}
	}
	var gone []string
	if d.c.Due != nil {
		for _, r := range d.c.Due.Runs {
			if r.Deputy == "" || there[r.Home] || there[r.Deputy] {
				continue
			}
			for _, id := range []string{r.Home, r.Deputy} {
				name := names[id]
				if name == "" {
					name = "a node that was forgotten"
				}
				if !slices.Contains(gone, name) {
					gone = append(gone, name)
				}
			}
		}
	}
	return gone
}

// offers are the Syncs that wait for this round, by session: of all who are ready, and of those whom an attempt has asked for
// leaves already, whatever they say now.
func (d *decider) offers() map[string]uint64 {
	out := map[string]uint64{}
	for _, p := range d.roster() {
		if p.ready && p.session.State == state.SessionOpen {
			out[p.session.ID] = p.seq
		}
	}
	if d.c.Due != nil {
		for id, seq := range d.c.Due.Sent {
			s := d.c.Sessions[id]
			if s != nil && s.State == state.SessionOpen && seq > max(s.LastSeq, s.SkippedSeq) {
				out[id] = max(out[id], seq)
			}
		}
	}
	return out
}

// skip gives up the round for some sessions.
func (d *decider) skip(sessions map[string]uint64, why string) {
	d.propose(state.SkipRound{
		Contract: d.c.Name, Run: d.c.Run, Round: d.c.Round() + 1, Attempt: d.c.Attempt, Sessions: sessions, Reason: why, AtMS: d.in.Now.UnixMilli(),
	}, fmt.Sprintf("skipping round %d: %s", d.c.Round()+1, why))
}

// cancel gives the running attempt up.
func (d *decider) cancel(reason string) {
	p := d.c.Plan
	d.propose(state.CancelPlan{
		Contract: d.c.Name, Run: d.c.Run, Round: p.Round, Attempt: p.Attempt, Reason: reason, AtMS: d.in.Now.UnixMilli(),
	}, fmt.Sprintf("giving up round %d (attempt %d): %s", p.Round, p.Attempt, reason))
}

// blameSkip notes who caused the skip of a participant that refuses the attempt: itself, unless those who left have.
func (d *decider) blameSkip(part state.Participant) {
	attempt := d.c.Plan.Attempt
	if leavers := d.spreads(part); len(leavers) > 0 {
		for _, n := range leavers {
			d.mem.causesSkip(n, attempt)
		}
		return
	}
	if d.mem.causesSkip(part.Node, attempt); len(d.mem.doubted([]string{part.Node})) > 0 {
		d.mem.exclude(part.Node)
	}
}

// spentAtPeers deals with participants whose own records forbid the attempt: two owners may have what they offer, of attempts
// that this swarm has forgotten, of an earlier round of a closed session's frozen weights, or of plans that only they were
// shown. Only they are skipped, or count 0 if they are closed: who says so falsely gains nothing. It is false if there is none.
func (d *decider) spentAtPeers() bool {
	p := d.c.Plan
	skipped, frozen := map[string]uint64{}, false
	var who []string
	for _, part := range p.Participants {
		f := d.in.Reports[part.Session].Failed
		s := d.c.Sessions[part.Session]
		if f == nil || f.Code != state.ReasonThirdOwner || f.Round != p.Round || f.Attempt != p.Attempt || s == nil || part.Weight == 0 {
			continue
		}
		who = append(who, part.Node)
		if s.State == state.SessionOpen {
			skipped[part.Session] = part.Seq
			d.blameSkip(part)
			continue
		}
		d.mem.freeze(part.Session)
		frozen = true
	}
	why := "two owners may have what " + names(who) + " offered"
	switch {
	case len(skipped) > 0:
		d.skip(skipped, why)
	case frozen:
		d.without(why)
	}
	return len(who) > 0
}
