package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/text"
)

// maxNumberAhead bounds how far a round that a node only says that it holds moves the number of one that is proven.
const maxNumberAhead = 1 << 16

// adoption goes on from a model that the SNs do not know and most nodes have signed.
type adoption struct {
	facts  *facts
	answer *answer
	times  *adoptionTimes
}

type adoptionTimes struct {
	since     time.Time // since when nodes that may be most of them say that they hold newer models than the state knows of
	claimants int       // how many say so
	last      time.Time // when the last of them came
	inVain    bool      // they did not prove any in time
}

// ahead looks whether nodes hold newer models than this state knows of, as they do when the SNs were restored from a backup. Until it is
// decided which of them most of the nodes have signed, for the stall grace at most, no round is planned. It is false while nothing is
// wrong, when too few say so to be most, and when it could not be proven in time: who has been asked and proves nothing does not count, as
// a power cut can leave nodes with a model that was merged and never committed.
func (ad *adoption) ahead() bool {
	if ad.facts.c.Terms == nil || !ad.facts.claimed() {
		ad.times.since = time.Time{}
		return false
	}
	reports, claims, newest := ad.facts.recentReports(), map[string]bool{}, uint64(0)
	for _, r := range reports {
		for _, h := range r.Held {
			if h.Round > ad.facts.c.Round() {
				claims[r.Node] = true
				newest = max(newest, h.Round)
			}
		}
	}
	live, unheard, silent := ad.facts.unproven(reports, claims)
	if 2*(len(claims)+unheard) <= live {
		ad.times.since = time.Time{}
		return false
	}
	now := ad.facts.in.Now
	if ad.times.since.IsZero() {
		ad.times.since, ad.times.claimants = now, 0
	}
	if len(claims) > ad.times.claimants {
		ad.times.claimants, ad.times.last = len(claims), now
	}
	since := now.Sub(ad.times.since)
	grace := max(ad.facts.cfg.StallGrace, 2*ad.facts.cfg.HeartbeatTimeout)
	all := len(silent) == 0 || since >= ad.facts.cfg.HeartbeatTimeout
	if p := ad.proven(reports, since >= grace); p != nil && all {
		ad.adopt(*p, newest)
		return true
	}
	asked := now.Sub(ad.times.last) >= ad.facts.cfg.HeartbeatTimeout
	if since >= grace || asked && 2*(proving(reports, ad.facts.c.Round())+unheard) <= live {
		ad.times.inVain = true
	}
	if ad.times.inVain || ad.facts.c.Plan != nil {
		return false
	}
	ad.answer.wait(Waiting{Kind: WaitProof, Since: ad.times.since, Until: ad.times.since.Add(grace), For: silent, Rule: fmt.Sprintf(
		"the SNs know nothing behind round %[3]d, and %[1]s reported models up to round %[2]d: the SNs were restored from a backup; the newest model is taken that most nodes with a session have signed",
		text.Names(sortedNames(claims)), newest, ad.facts.c.Round())})
	return true
}

// claimed reports whether any session has reported a model that is newer than the last one.
func (f *facts) claimed() bool {
	for _, r := range f.in.Reports {
		if slices.ContainsFunc(r.Held, func(m round.Model) bool { return m.Round > f.c.Round() }) {
			return true
		}
	}
	return false
}

// unproven counts the nodes with a session that are alive, and those of them that have not reported yet. It names all of whom it is not
// known yet what they can prove.
func (f *facts) unproven(reports []reports.Report, claims map[string]bool) (live, unheard int, silent []string) {
	heard, told := map[string]bool{}, map[string]bool{}
	for _, r := range reports {
		heard[r.Node], told[r.Node] = true, !claims[r.Node] || len(r.Proofs) > 0
	}
	for _, s := range f.c.Active() {
		if n := f.in.View.Nodes[s.Node]; n == nil || !n.Live {
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

// proving counts the nodes that have signed a round behind the last one.
func proving(reports []reports.Report, last uint64) int {
	by := map[string]bool{}
	for _, r := range reports {
		if slices.ContainsFunc(r.Proofs, func(p ledger.Round) bool { return p.Round > last }) {
			by[r.Node] = true
		}
	}
	return len(by)
}

// proven finds the newest round behind the last one whose model somebody holds and most nodes with a session have signed. Those that are
// dead count, unless they had all the time to come back.
func (ad *adoption) proven(reports []reports.Report, late bool) *ledger.Round {
	held, by := map[round.Model]bool{}, map[string]*ledger.Round{}
	for _, r := range reports {
		for _, h := range r.Held {
			held[round.Model{Digest: h.Digest, State: h.State}] = true // it may have been taken on under another number
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
		case p.Round <= ad.facts.c.Round() || !held[round.Model{Digest: p.Model, State: p.State}]:
		case !late && 2*signatures(p) <= len(ad.facts.c.Active()):
		case ad.facts.c.Proves(ad.facts.in.View, *p) != nil:
		case best == nil || cmp.Or(cmp.Compare(p.Round, best.Round), cmp.Compare(signatures(p), signatures(best)), cmp.Compare(unsigned(*p), unsigned(*best))) > 0:
			best = p
		}
	}
	return best
}

// adopt proposes to go on from a round that is proven, under a number behind all that anybody has spoken of.
func (ad *adoption) adopt(p ledger.Round, newest uint64) {
	if newest > p.Round+maxNumberAhead {
		newest = p.Round
	}
	interval, _ := ad.facts.startInterval()
	if ad.facts.c.Committed != nil {
		interval = ad.facts.c.Committed.NextInterval
	}
	a := state.AdoptRound{
		Contract: ad.facts.c.Name, Run: ad.facts.c.Run, Last: ad.facts.c.Round(), Round: max(p.Round, newest) + 1, Proof: p, NextInterval: max(interval, 1), AtMS: ad.facts.in.Now.UnixMilli(),
	}
	ad.answer.propose(a, fmt.Sprintf("that training goes on from the model of round %d, which %d nodes have signed, as round %d", p.Round, signatures(&p), a.Round))
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
