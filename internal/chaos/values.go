package chaos

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// readEvents takes what a program told since.
func (j *judge) readEvents(p *peerLog) error {
	raw, err := readFrom(p.path, p.at)
	if err != nil {
		return err
	}
	p.at += int64(len(raw))
	for line, rest, ok := ledger.CutLine(raw); ok; line, rest, ok = ledger.CutLine(rest) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("events of %s: %w", p.name, err)
		}
		j.told(p, e)
	}
	return nil
}

func (j *judge) told(p *peerLog, e event) {
	switch e.What {
	case "offer":
		p.offers = append(p.offers, e)
	case "took":
		if e.Session != p.session {
			p.session, p.inSession = e.Session, 0
		}
		if e.Round < p.inSession || e.Round == p.inSession && !e.Final {
			j.violate("%s was given round %d after round %d", p.name, e.Round, p.inSession)
		}
		p.inSession = e.Round
		p.last[e.Contract] = max(p.last[e.Contract], e.Round)
		p.taken = append(p.taken, e)
	case "wrong":
		j.wrongRead++
		if !j.misread.covers(p.name, e.At, e.At) {
			j.violate("%s: %s", p.name, e.Detail)
		}
	case "end":
		p.ended[e.Contract] = e
	}
}

// spans are times at which peers' weight files were changed on purpose.
type spans map[string][]span

// span is a time; an open one has no end yet.
type span struct{ from, to int64 }

func (s spans) begin(peer string, nowMS int64) { s[peer] = append(s[peer], span{from: nowMS}) }

func (s spans) end(peer string, nowMS int64) {
	if all := s[peer]; len(all) > 0 {
		all[len(all)-1].to = nowMS
	}
}

// covers reports whether a peer's files were changed within a time.
func (s spans) covers(peer string, from, to int64) bool {
	return slices.ContainsFunc(s[peer], func(s span) bool { return s.from <= to && (s.to == 0 || from <= s.to) })
}

// compute computes a round again from what its participants offered.
func (j *judge) compute(r *round) error {
	var weights []uint32
	var models [][]byte
	for _, part := range r.by {
		e, ok := j.offerOf(part, r)
		if !ok {
			j.violate("round %d of %s has a contribution of %s, whose program offered none", r.number, r.contract, part.Node)
			return nil
		}
		if part.Weight == 0 && e.Final {
			continue // What a closed session left can't be offered anew: where two owners may have leaves of it, it counts 0.
		}
		if part.Weight != weightOf(part.Node) {
			j.violate("round %d of %s: the weight of %s is %d, its program said %d", r.number, r.contract, part.Node, part.Weight, weightOf(part.Node))
		}
		base, known := j.models.get(e.Digest)
		if !known || j.misoffered.covers(part.Node, e.At, r.atMS) {
			j.skipped++
			return j.models.keep(r.model, nil)
		}
		model := make([]byte, j.layout.Bytes())
		offer(model, part.Node, e.Round, base)
		weights, models = append(weights, part.Weight), append(models, model)
	}
	model, err := mergeOf(j.layout, weights, models)
	if err != nil {
		j.violate("round %d of %s: %v", r.number, r.contract, err)
		return nil
	}
	if got := digestOf(j.layout, model); got != r.model {
		j.violate("round %d of %s has the digest %.12s, what its participants offered makes %.12s", r.number, r.contract, r.model, got)
		return nil
	}
	j.computed++
	return j.models.keep(r.model, model)
}

// offerOf is what a participant's program offered for a round: the newest before it.
func (j *judge) offerOf(part ledger.Participant, r *round) (event, bool) {
	i := slices.IndexFunc(j.peers, func(p *peerLog) bool { return p.name == part.Node })
	if i < 0 {
		return event{}, false
	}
	offers := j.peers[i].offers
	for k := len(offers) - 1; k >= 0; k-- {
		if e := offers[k]; e.Session == part.Session && e.Round < r.number {
			j.baseOf(part, r, e)
			return e, true
		}
	}
	return event{}, false
}

// baseOf wants training to have started from the last committed model. A peer that has finished offers what it had then.
func (j *judge) baseOf(part ledger.Participant, r *round, e event) {
	if e.Final {
		return
	}
	all := j.chain.rounds[r.contract]
	i := slices.Index(all, r)
	if i == 0 && e.Round == 0 || i > 0 && (all[i-1].model == "" || all[i-1].number == e.Round && all[i-1].model == e.Digest) {
		return
	}
	j.violate("round %d of %s: what %s offered was trained from round %d, which is not the one before", r.number, r.contract, part.Node, e.Round)
}

// matchTaken holds what a program has taken to the ledger. What the ledger does not have yet waits.
func (j *judge) matchTaken(p *peerLog) {
	p.taken = slices.DeleteFunc(p.taken, func(e event) bool {
		r, last := j.chain.find(e.Contract, e.Round), j.chain.last(e.Contract)
		switch {
		case r == nil && last != nil && last.number > e.Round:
			j.violate("%s took a model as round %d of %s, which the ledger skips", p.name, e.Round, e.Contract)
			return true
		case r == nil:
			return false
		case r.model != e.Digest:
			j.violate("%s took another model for round %d of %s than the ledger has", p.name, e.Round, e.Contract)
			return true
		}
		took := slices.ContainsFunc(r.by, func(part ledger.Participant) bool { return part.Node == p.name && part.Session == e.Session })
		if took != e.Contributed && !e.Final {
			j.violate("%s was told that contributed is %t for round %d of %s, the ledger says %t", p.name, e.Contributed, e.Round, e.Contract, took)
		}
		j.took++
		return true
	})
}

// together reports whether all of these peers have taken a round of after a time in which all of them took part, or a later one.
func (j *judge) together(contract string, afterMS int64, names []string) bool {
	for _, r := range j.chain.rounds[contract] {
		if r.atMS <= afterMS || slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(r.by, func(part ledger.Participant) bool { return part.Node == name })
		}) {
			continue
		}
		return !slices.ContainsFunc(j.peers, func(p *peerLog) bool {
			return slices.Contains(names, p.name) && p.last[contract] < r.number
		})
	}
	return false
}
