package audit

import (
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/merge/exchange"
)

// Adoption is a model of a round that a ledger lacks: the SNs were restored from a backup and went on from what the SLs had signed since.
type Adoption struct {
	Record       uint64 // number of the record
	AtMS         int64
	Run          uint64
	Last         uint64 // the last round before in the ledger; 0: none
	Proven       uint64 // the round that the model was merged in
	Round        uint64 // the number that it has from there on
	Signed       int    // so many of its participants' signatures are on record
	Participants int
}

// SignedMessage returns what a participant of a round has signed by its node key. The error says which field of the round does not read.
func SignedMessage(r ledger.Round, node string) ([]byte, error) {
	var errs []error
	out, _ := outcomeOf(r, func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf(field+": "+format, args...))
	})
	out.Node = node
	return exchange.AttestationMessage(out), errors.Join(errs...)
}

// adopted holds a round that was adopted to its signatures: most of its participants must have signed it. The past that they witnessed is
// that of a ledger that is gone.
func (k *contracts) adopted(b ledger.AdoptedRound) {
	r := b.Proof
	k.report.Rounds++
	c := k.course(r.Contract, r.Run)
	begins := k.report.Late && c.shown.LastRound == 0 && len(c.models) == 0 && c.shown.Rounds == 0
	switch {
	case r.Run != c.shown.Run:
		k.bad("proof.run", "contract %s is in run %d, not %d", r.Contract, c.shown.Run, r.Run)
	case c.shown.Over:
		k.bad("proof.round", "the training of contract %s has ended with round %d", r.Contract, c.shown.LastRound)
	case b.Last != c.shown.LastRound && !begins:
		k.bad("last", "the last round of contract %s is %d, not %d", r.Contract, c.shown.LastRound, b.Last)
	case r.Round <= b.Last || b.Round <= r.Round:
		k.bad("round", "round %d can't follow round %d as round %d", r.Round, b.Last, b.Round)
	}
	c.shown.LastRound, c.shown.Model = b.Round, r.Model
	c.models[r.Round], c.models[b.Round] = r.Model, r.Model
	c.shown.Rounds++
	k.tiles(r)
	run := c.run()
	signed := k.signers(r)
	for _, p := range r.Participants {
		for _, s := range []*Share{k.share(c.shares, &c.shown.Participants, p), k.share(c.runShares, &run.Participants, p)} {
			if len(p.Signature) > 0 {
				s.Rounds++
			}
			s.Weight += uint64(p.Weight)
		}
	}
	k.committed(run, r, c.programs)
	run.models[r.Round].base, run.models[r.Round].missing = b.Last, r.Round-min(r.Round, b.Last+1)
	k.resumed(run, ledger.LostModel{Round: b.Round - 1, Resumed: r.Round})
	c.shown.Adoptions = append(c.shown.Adoptions, Adoption{
		Record: k.seq, AtMS: k.atMS, Run: r.Run, Last: b.Last, Proven: r.Round, Round: b.Round, Signed: signed, Participants: len(r.Participants),
	})
}

// signers holds those who have signed a round that was adopted to their registrations and signatures, and counts them.
func (k *contracts) signers(r ledger.Round) (signed int) {
	out, ok := outcomeOf(r, func(field, format string, args ...any) { k.bad("proof."+field, format, args...) })
	if r.Witnessed.Length != 0 {
		k.bad("proof.witnessed.length", "the ledger that was witnessed is gone, %d of its records are not known here", r.Witnessed.Length)
	}
	seen := map[string]bool{}
	for i, p := range r.Participants {
		field := func(name string) string { return fmt.Sprintf("proof.participants[%d].%s", i, name) }
		known := k.members.nodes[p.Node]
		if known != nil && known.PeerID != p.PeerID {
			k.bad(field("peer_id"), "node %s registered with node key %s, not %s", p.Node, known.PeerID, p.PeerID)
		}
		if len(p.Signature) == 0 {
			continue // it may not have come back since, to register
		}
		if known == nil {
			k.bad(field("node"), "no registration of a node %q is on record", p.Node)
		}
		if _, banned := k.members.banned[p.PeerID]; banned {
			k.bad(field("peer_id"), "the node key of %s is banned", p.Node)
		}
		out.Node = p.Node
		if ok && !k.opts.Unsigned && identity.VerifyNodeSignature(p.PeerID, exchange.AttestationMessage(out), p.Signature) != nil {
			k.bad(field("signature"), "node %s did not sign this: its signature, or something else of this round, was changed", p.Node)
		}
		if seen[p.PeerID] {
			k.bad(field("peer_id"), "it stands here twice")
		}
		seen[p.PeerID] = true
		signed++
	}
	if 2*signed <= len(r.Participants) {
		k.bad("proof.participants", "%d of %d have signed: that is not most", signed, len(r.Participants))
	}
	return signed
}
