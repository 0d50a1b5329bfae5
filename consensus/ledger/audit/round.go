package audit

import (
	"bytes"
	"cmp"
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// contracts are those that the ledger told of so far.
type contracts struct {
	*findings
	past    *past
	orders  *orders
	members *members
	courses map[string]*course
	order   []string // of their names, by first appearance
	floors  []uint64 // 0, and then the runs that each higher than all before were deleted
}

// course is how far a contract has come.
type course struct {
	shown  *Contract
	models map[uint64]string // of this run, by round
	// programs are those of the sessions of this run, by session.
	programs map[string]string
	shares   map[string]*Share // by node
	// runShares are those of the run that is under way.
	runShares map[string]*Share
	records   int // that told of it since it was made
	paused    bool
	floor     int // what was the last of floors when one of its name was deleted
}

// course returns a contract's for a record that tells of one of its runs, begun if it is new or was deleted.
func (k *contracts) course(name string, run uint64) *course {
	c := k.courses[name]
	if c == nil {
		c = &course{shown: &Contract{Name: name}, shares: map[string]*Share{}}
		k.courses[name] = c
		k.order = append(k.order, name)
		k.begin(c, run)
	} else if c.shown.Deleted {
		k.begin(c, run)
	}
	c.records++
	return c
}

func (k *contracts) round(r ledger.Round) {
	k.report.Rounds++
	c := k.course(r.Contract, r.Run)
	begins := k.report.Late && c.shown.LastRound == 0 && len(c.models) == 0 && c.shown.Rounds == 0
	switch {
	case r.Run != c.shown.Run:
		k.bad("run", "contract %s is in run %d, not %d", r.Contract, c.shown.Run, r.Run)
	case c.shown.Over:
		k.bad("round", "the training of contract %s has ended with round %d", r.Contract, c.shown.LastRound)
	case r.Round != c.shown.LastRound+1 && !begins:
		k.bad("round", "round %d of contract %s is due, not %d", c.shown.LastRound+1, r.Contract, r.Round)
	}
	c.shown.LastRound, c.shown.Model = r.Round, r.Model
	c.models[r.Round] = r.Model
	c.shown.Rounds++
	run := c.run()
	out, ok := k.outcome(r)
	k.tiles(r)
	for i, p := range r.Participants {
		k.participant(i, p, out, ok)
		for _, s := range []*Share{k.share(c.shares, &c.shown.Participants, p), k.share(c.runShares, &run.Participants, p)} {
			s.Rounds++
			s.Weight += uint64(p.Weight)
			s.ran(c.programs[p.Session])
		}
	}
	k.committed(run, r, c.programs)
}

// share returns a participant's, begun if it is new.
func (k *contracts) share(known map[string]*Share, shown *[]*Share, p ledger.Participant) *Share {
	s := known[p.Node]
	if s == nil {
		s = &Share{Node: p.Node, PeerID: p.PeerID}
		if n := k.members.nodes[p.Node]; n != nil {
			s.SPIFFEID = n.SPIFFEID
		}
		known[p.Node] = s
		*shown = append(*shown, s)
	}
	return s
}

// participant holds one participant to its registration and its signature.
func (k *contracts) participant(i int, p ledger.Participant, out exchange.Outcome, readable bool) {
	field := func(name string) string { return fmt.Sprintf("participants[%d].%s", i, name) }
	known := k.members.nodes[p.Node]
	switch {
	case known == nil:
		k.bad(field("node"), "no registration of a node %q is on record", p.Node)
	case known.PeerID != p.PeerID:
		k.bad(field("peer_id"), "node %s registered with node key %s, not %s", p.Node, known.PeerID, p.PeerID)
	}
	if _, banned := k.members.banned[p.PeerID]; banned {
		k.bad(field("peer_id"), "the node key of %s is banned", p.Node)
	}
	if !readable || k.opts.Unsigned {
		return
	}
	out.Node = p.Node
	if identity.VerifyNodeSignature(p.PeerID, exchange.AttestationMessage(out), p.Signature) != nil {
		k.bad(field("signature"), "node %s did not sign this: its signature, or something else of this round, was changed", p.Node)
	}
}

// outcome returns what the participants of a round signed; false if a digest in it does not read.
func (k *contracts) outcome(r ledger.Round) (exchange.Outcome, bool) {
	out, ok := outcomeOf(r, k.bad)
	if r.Witnessed.Length > 0 || r.Witnessed.Hash != "" {
		k.past.witness("witnessed", r.Witnessed)
	}
	return out, ok
}

// outcomeOf returns what the participants of a round signed, but for their names; false if a digest in it does not read. Bad is told what is
// wrong.
func outcomeOf(r ledger.Round, bad func(field, format string, args ...any)) (exchange.Outcome, bool) {
	ok := true
	digest := func(field, text string) merge.Digest {
		d, err := merge.ParseDigest(text)
		if err != nil || d.String() != text {
			bad(field, "%.80q is no digest", text)
			ok = false
		}
		return d
	}
	out := exchange.Outcome{
		Contract: r.Contract, Run: r.Run, Round: r.Round, Number: r.Attempt, ModelDigest: digest("model", r.Model),
	}
	plan := exchange.Planned{Contract: r.Contract, Run: r.Run, Round: r.Round, Method: r.Method, Layout: digest("layout", r.Layout)}
	for i, text := range r.Shards {
		out.ShardDigests = append(out.ShardDigests, digest(fmt.Sprintf("shards[%d]", i), text))
	}
	if r.ShardsDigest != "" {
		out.ShardsDigest = digest("shards_digest", r.ShardsDigest)
	}
	if r.State != "" {
		out.StateDigest = digest("state", r.State)
	}
	if r.Witnessed.Length > 0 || r.Witnessed.Hash != "" {
		out.Ledger = digest("witnessed.hash", r.Witnessed.Hash)
	}
	plan.Epoch, plan.Witnesses = r.Epoch, int(r.Witnesses)
	if r.Witnesses == 1 {
		bad("witnesses", "one that merges each part is none that the rules can ask for")
	}
	for i, p := range r.Participants {
		part := exchange.Participant{Node: p.PeerID, Session: p.Session, Weight: p.Weight, Factor: p.Factor, Unit: cmp.Or(p.SPIFFEID, p.PeerID)}
		if p.SPIFFEID != "" && (r.Witnesses == 0 || p.SPIFFEID == p.PeerID) {
			bad(fmt.Sprintf("participants[%d].spiffe_id", i), "%.256q tells no witnesses apart", p.SPIFFEID)
		}
		for _, run := range p.Runs() {
			part.Own(merge.Shard{First: int(run.First), Leaves: int(run.Leaves)}) //nolint:gosec // only compared, as 64 bits
		}
		plan.Participants = append(plan.Participants, part)
	}
	out.Plan = plan.Digest()
	return out, ok
}

// tiles holds that every leaf of the model has one owner, and that somebody contributed.
func (k *contracts) tiles(r ledger.Round) {
	switch {
	case r.ShardsDigest != "" && len(r.Shards) > 0:
		k.bad("shards", "there is a digest over all of them too, and one of both is not signed")
	case len(r.Participants) == 0 || r.ShardsDigest == "" && len(r.Shards) != len(r.Participants):
		k.bad("shards", "%d digests of shards for %d participants", len(r.Shards), len(r.Participants))
	}
	weight := uint64(0)
	owned := make([][]ledger.LeafRun, 0, len(r.Participants))
	for _, p := range r.Participants {
		owned = append(owned, p.Runs())
		weight += uint64(p.Weight)
	}
	if _, i, err := ledger.Tile(owned); err != nil {
		k.bad(fmt.Sprintf("participants[%d].shard_first", i), "%v", err)
	}
	if weight == 0 {
		k.bad("participants", "nobody has a weight above 0")
	}
}

func (k *contracts) over(o ledger.Over) {
	c := k.course(o.Contract, o.Run)
	k.newest(c, o.Contract, o.Run, o.Round, o.Model)
	c.shown.Over, c.shown.LastRound, c.shown.Model, c.paused = true, o.Round, o.Model, false
	c.run().Over = true
}

// newest holds that a record speaks of the contract's last round and of the model that it made. A copy that begins late does
// not show what was before.
func (k *contracts) newest(c *course, contract string, run, round uint64, model string) (good bool) {
	late := k.report.Late && c.shown.Rounds == 0
	switch {
	case run != c.shown.Run:
		k.bad("run", "contract %s is in run %d, not %d", contract, c.shown.Run, run)
	case round != c.shown.LastRound && !late:
		k.bad("round", "the last round of contract %s is %d, not %d", contract, c.shown.LastRound, round)
	case model != c.models[round] && !late:
		k.bad("model", "round %d of contract %s made model %.12s, not %.12s", round, contract, c.models[round], model)
	default:
		return true
	}
	return false
}

func (k *contracts) reset(r ledger.Reset) {
	c := k.course(r.Contract, r.Run-1)
	if asked := (&swarmv1.ResetContractRequest{}); k.orders.asked(r.Order, asked) && (asked.GetContract() != r.Contract || asked.GetRun() != 0 && asked.GetRun() != r.Run-1) {
		k.bad("run", "the operator asked to reset run %d of contract %q; 0 is any", asked.GetRun(), asked.GetContract())
	}
	if r.Run != c.shown.Run+1 {
		k.bad("run", "contract %s is in run %d, so %d begins, not %d", r.Contract, c.shown.Run, c.shown.Run+1, r.Run)
	}
	c.goTo(r.Run)
}

func (k *contracts) lost(l ledger.LostModel) {
	c := k.course(l.Contract, l.Run)
	if k.newest(c, l.Contract, l.Run, l.Round, l.Model) &&
		(l.Resumed >= l.Round || l.Resumed > 0 && c.models[l.Resumed] == "" && !k.report.Late) {
		k.bad("resumed", "there is no model of round %d to go back to", l.Resumed)
	}
	// What is lost takes the number of a round, which is that of the older model from then on.
	c.shown.LastRound, c.shown.Model = l.Round+1, c.models[l.Resumed]
	c.models[l.Round+1] = c.models[l.Resumed]
	k.resumed(c.run(), l)
}

func (k *contracts) rules(b ledger.Rules) {
	c := k.course(b.Contract, b.Run)
	if b.Run != c.shown.Run {
		k.bad("run", "contract %s is in run %d, not %d", b.Contract, c.shown.Run, b.Run)
	}
	r := &swarmv1.CreateContractRequest{}
	if b.Order == nil {
		k.bad("order", "it is missing")
		return
	}
	if !k.orders.asked(b.Order, r) {
		return
	}
	if r.GetContract() != b.Contract {
		k.bad("contract", "the operator asked for contract %q", r.GetContract())
	}
	c.shown.Rules = append(c.shown.Rules, RuleSet{Record: k.seq, AtMS: k.atMS, Run: b.Run, By: b.Order.By, Rules: r.GetRules(), Asked: bytes.Clone(b.Order.Request)})
}
