package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// maxNumberAhead bounds how far a round that a node only says that it holds moves the number of one that is proven.
const maxNumberAhead = 1 << 16

// ahead looks whether nodes hold newer models than this state knows of, as they do when the SNs were restored from a backup. Until it is
// decided which of them most of the nodes have signed, for the stall grace at most, no round is planned. It is false while nothing is
// wrong, when too few say so to be most, and when it could not be proven in time.
func (d *decider) ahead() bool {
	if d.c.Terms == nil || !d.claimed() {
		d.mem.aheadSince = time.Time{}
		return false
	}
	reports, claims, newest := d.heard(), map[string]bool{}, uint64(0)
	for _, r := range reports {
		for _, h := range r.Held {
			if h.Round > d.c.Round() {
				claims[r.Node] = true
				newest = max(newest, h.Round)
			}
		}
	}
	live, unheard, silent := d.unproven(reports, claims)
	if 2*(len(claims)+unheard) <= live {
		d.mem.aheadSince = time.Time{}
		return false
	}
	now := d.in.Now
	if d.mem.aheadSince.IsZero() {
		d.mem.aheadSince = now
	}
	since := now.Sub(d.mem.aheadSince)
	grace := max(d.cfg.StallGrace, 2*d.cfg.HeartbeatTimeout)
	all := len(silent) == 0 || since >= d.cfg.HeartbeatTimeout
	if p := d.proven(reports, since >= grace); p != nil && all {
		d.adopt(*p, newest)
		return true
	}
	if since >= grace {
		d.mem.aheadVain = true
	}
	if d.mem.aheadVain || d.c.Plan != nil {
		return false
	}
	d.wait(Waiting{Kind: WaitProof, Since: d.mem.aheadSince, Until: d.mem.aheadSince.Add(grace), For: silent, Rule: fmt.Sprintf(
		"the SNs know nothing behind round %[3]d, and %[1]s reported models up to round %[2]d: the SNs were restored from a backup; the newest model is taken that most nodes with a session have signed",
		names(sortedNames(claims)), newest, d.c.Round())})
	return true
}

// claimed reports whether any session has reported a model that is newer than the last one.
func (d *decider) claimed() bool {
	for _, r := range d.in.Reports {
		if slices.ContainsFunc(r.Held, func(h Held) bool { return h.Round > d.c.Round() }) {
			return true
		}
	}
	return false
}

// unproven counts the nodes with a session that are alive, and those of them that have not reported yet. It names all of whom it is not
// known yet what they can prove.
func (d *decider) unproven(reports []Report, claims map[string]bool) (live, unheard int, silent []string) {
	heard, told := map[string]bool{}, map[string]bool{}
	for _, r := range reports {
		heard[r.Node], told[r.Node] = true, !claims[r.Node] || len(r.Proofs) > 0
	}
	for _, s := range d.c.Active() {
		if n := d.in.View.Nodes[s.Node]; n == nil || !n.Live {
			continue
		}
		if live++; !heard[s.Node] {
			unheard++
		}
		if !told[s.Node] {
			silent = append(silent, s.Node)
		}
	}
	slices.Sort(silent)
	return live, unheard, silent
}

// proven finds the newest round behind the last one whose model somebody holds and most nodes with a session have signed. Those that are
// dead count, unless they had all the time to come back.
func (d *decider) proven(reports []Report, late bool) *ledger.Round {
	held, by := map[Held]bool{}, map[string]*ledger.Round{}
	for _, r := range reports {
		for _, h := range r.Held {
			held[Held{Digest: h.Digest, StateDigest: h.StateDigest}] = true // it may have been taken on under another number
		}
		for _, p := range r.Proofs {
			key := unsigned(p)
			if had := by[key]; had == nil {
				p.Participants = slices.Clone(p.Participants)
				by[key] = &p
			} else {
				join(had, p)
			}
		}
	}
	var best *ledger.Round
	for _, p := range by {
		switch {
		case p.Round <= d.c.Round() || !held[Held{Digest: p.Model, StateDigest: p.State}]:
		case !late && 2*signatures(p) <= len(d.c.Active()):
		case d.c.Proves(d.in.View, *p) != nil:
		case best == nil || cmp.Or(cmp.Compare(p.Round, best.Round), cmp.Compare(signatures(p), signatures(best)), cmp.Compare(unsigned(*p), unsigned(*best))) > 0:
			best = p
		}
	}
	return best
}

// adopt proposes to go on from a round that is proven, under a number behind all that anybody has spoken of.
func (d *decider) adopt(p ledger.Round, newest uint64) {
	if newest > p.Round+maxNumberAhead {
		newest = p.Round
	}
	interval, _ := d.startInterval()
	if d.c.Committed != nil {
		interval = d.c.Committed.NextInterval
	}
	a := state.AdoptRound{
		Contract: d.c.Name, Run: d.c.Run, Last: d.c.Round(), Round: max(p.Round, newest) + 1, Proof: p, NextInterval: max(interval, 1), AtMS: d.in.Now.UnixMilli(),
	}
	d.propose(a, fmt.Sprintf("that training goes on from the model of round %d, which %d nodes have signed, as round %d", p.Round, signatures(&p), a.Round))
}

// unsigned is what a round says without its signatures, in canonical form.
func unsigned(r ledger.Round) string {
	r.Participants = slices.Clone(r.Participants)
	for i := range r.Participants {
		r.Participants[i].Signature = nil
	}
	b, err := json.Marshal(r)
	if err != nil { // a factor that is not finite: the same for nobody
		return fmt.Sprintf("%p", r.Participants)
	}
	return string(b)
}

// join adds the signatures of the same round.
func join(to *ledger.Round, from ledger.Round) {
	for i, p := range from.Participants {
		if len(to.Participants[i].Signature) == 0 {
			to.Participants[i].Signature = bytes.Clone(p.Signature)
		}
	}
}

func signatures(r *ledger.Round) (n int) {
	for _, p := range r.Participants {
		if len(p.Signature) > 0 {
			n++
		}
	}
	return n
}

func sortedNames(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for name := range set {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// tellAdopted logs once, on every SN that is there, that the swarm went on from what the SLs had. Only Run calls it.
func (l *Planner) tellAdopted(view *state.State, since time.Time) {
	for name := range l.adoptions {
		if view.Contracts[name] == nil {
			delete(l.adoptions, name)
		}
	}
	for name, c := range view.Contracts {
		if a := c.Adopted; a != nil && l.adoptions[name] != *a {
			if a.AtMS >= since.UnixMilli() {
				l.log.Warn("training goes on from a model that the SNs did not know", "contract", name, "run", c.Run, "why", a.String())
			}
			l.adoptions[name] = *a
		}
	}
}
