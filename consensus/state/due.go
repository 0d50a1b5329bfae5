package state

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Due is what the attempts so far of the round that is due leave behind for the next one.
type Due struct {
	// Runs say who owns which leaves, ascending; nil: no attempt since the round began, or was skipped, has allotted them.
	Runs []OwnedRun `json:"runs,omitempty"`
	// Sent has the contributions that the owners of Runs may have leaves of: by session the Sync number.
	Sent map[string]uint64 `json:"sent,omitempty"`
	// Spent has those that two owners may have of leaves that others own now: they count 0 for the rest of the round.
	Spent map[string]uint64 `json:"spent,omitempty"`
	// Epoch is the least that the next plan may have.
	Epoch uint64 `json:"epoch,omitempty"`
}

// due returns what is left behind, the zero value for nothing.
func (c *Contract) due() Due {
	if c.Due == nil {
		return Due{}
	}
	return *c.Due
}

// Epoch is the least that the next plan of the round that is due may have.
func (c *Contract) Epoch() uint64 { return c.due().Epoch }

// Sent reports whether the owners of the round's leaves may have some of a participant's contribution.
func (c *Contract) Sent(p Participant) bool { return holds(c.due().Sent, p) }

// Spent reports whether a participant's contribution must count 0, as others than these owners may have leaves of it.
func (c *Contract) Spent(p Participant) bool { return holds(c.due().Spent, p) }

func holds(seqs map[string]uint64, p Participant) bool {
	seq, ok := seqs[p.Session]
	return ok && seq == p.Seq
}

// Allot returns the participants with the shards that they get in the next attempt, as [Allot] has it. If leaves would go to a
// third owner, but nobody contributes what earlier attempts may have sent, all are allotted anew. The error is a rejection.
func (s *State) Allot(c *Contract, parts []Participant) ([]Participant, error) {
	out, _, _, err := s.allot(c, parts)
	return out, err
}

// allot is Allot; it also returns what holds from now on, and whether that was allotted anew.
func (s *State) allot(c *Contract, parts []Participant) (out []Participant, runs []OwnedRun, anew bool, err error) {
	named := c.Rules.owners()
	owners := make([]Owner, 0, len(parts))
	for _, p := range parts {
		o := Owner{PeerID: p.Node, Weight: p.Weight}
		if n := s.Nodes[p.Node]; n != nil {
			o.PeerID, o.SPIFFEID, o.Named = n.PeerID, n.SPIFFEID, named.Match(n.SPIFFEID)
		}
		if session := c.Sessions[p.Session]; session != nil {
			o.NoShard = session.NoShard
		}
		owners = append(owners, o)
	}
	runs, shards, err := Allot(c.Terms.Leaves, c.due().Runs, owners, len(named) > 0)
	if errors.Is(err, ErrThirdOwner) && !slices.ContainsFunc(parts, func(p Participant) bool { return p.Weight > 0 && c.Sent(p) }) {
		anew = true
		runs, shards, err = Allot(c.Terms.Leaves, nil, owners, len(named) > 0)
	}
	if errors.Is(err, ErrNoOwner) {
		return nil, nil, false, reject(ReasonNoOwner, "start one of the nodes that may own",
			"only %s may own parts of the model, and none of these is ready", Clip(named.String(), maxShort))
	}
	if err != nil {
		return nil, nil, false, reject(ReasonThirdOwner, "", "contract %s: %v", c.Name, err)
	}
	if err := c.checkMergers(owners, shards); err != nil {
		return nil, nil, false, err
	}
	out = slices.Clone(parts)
	for i := range out {
		out[i].ShardFirst, out[i].ShardLeaves, out[i].MoreShards, out[i].SPIFFEID = 0, 0, nil, ""
		if own := shards[i]; len(own) > 0 {
			out[i].ShardFirst, out[i].ShardLeaves = own[0].First, own[0].Leaves
			out[i].MoreShards = append(out[i].MoreShards, own[1:]...) // nil if there are none
		}
	}
	return out, runs, anew, nil
}

// checkMergers holds that there are as many parties that own parts of the model as the rule witnesses asks for: less would be said to
// be watched by so many and not be.
func (c *Contract) checkMergers(owners []Owner, shards [][]LeafRun) error {
	need, units := int(c.Rules.witnesses()), map[string]bool{}
	for i, o := range owners {
		if len(shards[i]) > 0 {
			units[Unit(o.SPIFFEID, o.PeerID)] = true
		}
	}
	if len(units) < need {
		return reject(ReasonWitnesses, "start more peers that own parts of the model",
			"witnesses %d needs as many parties that own parts of the model: there are %d", need, len(units))
	}
	return nil
}

// Unit names the party that a participant of a plan belongs to, by which witnesses are told apart.
func (s *State) Unit(p Participant) string {
	if n := s.Nodes[p.Node]; n != nil {
		return cmp.Or(p.SPIFFEID, Unit(n.SPIFFEID, n.PeerID))
	}
	return cmp.Or(p.SPIFFEID, p.Node)
}

// follow holds a plan to what earlier attempts of the round left behind, and notes what it leaves itself.
func (p PlanRound) follow(s *State, c *Contract) error {
	due := c.due()
	if p.Epoch < due.Epoch {
		return reject(ReasonStalePlan, "", "contract %s: epoch %d is due, not %d", c.Name, due.Epoch, p.Epoch)
	}
	if !p.Allotted {
		if due.Runs != nil {
			return reject(ReasonBadShards, "", "contract %s: earlier attempts of round %d were allotted, this one is not", c.Name, p.Round)
		}
		if c.Rules.witnesses() > 0 { // no version that knew no allotment knew them
			return reject(ReasonBadShards, "", "contract %s: round %d is not allotted", c.Name, p.Round)
		}
		if p.Epoch > 0 {
			c.Due = &Due{Epoch: p.Epoch}
		}
		return nil
	}
	parts, runs, anew, err := s.allot(c, p.Participants)
	if err != nil {
		return err
	}
	if anew {
		due = due.spend()
	}
	next := &Due{Runs: runs, Sent: with(due.Sent), Spent: due.Spent, Epoch: p.Epoch}
	for i, part := range parts {
		switch {
		case !part.Equal(p.Participants[i]):
			return reject(ReasonBadShards, "", "contract %s: the leaves of %s are not those that it is allotted", c.Name, part.Node)
		case part.Weight == 0:
		case holds(due.Spent, part):
			return reject(ReasonThirdOwner, "", "contract %s: two owners may have what %s offers", c.Name, part.Node)
		default:
			next.Sent[part.Session] = part.Seq
		}
	}
	c.Due = next
	return nil
}

// spend returns what is left once nobody owns any leaf.
func (d Due) spend() Due {
	spent := with(d.Spent)
	maps.Copy(spent, d.Sent)
	return Due{Spent: spent, Epoch: d.Epoch}
}

// with returns a copy that can be written to.
func with(m map[string]uint64) map[string]uint64 {
	if m == nil {
		return map[string]uint64{}
	}
	return maps.Clone(m)
}

// check holds what must be true of what attempts left behind.
func (d *Due) check(leaves uint64) error {
	if d == nil {
		return nil
	}
	if d.Runs == nil && len(d.Sent)+len(d.Spent) == 0 && d.Epoch == 0 {
		return errors.New("nothing was left behind")
	}
	next := uint64(0)
	for _, r := range d.Runs {
		if r.First != next || r.Leaves == 0 || r.Leaves > leaves-next || r.Home == "" {
			return fmt.Errorf("run of leaves at %d, not %d", r.First, next)
		}
		next += r.Leaves
	}
	if d.Runs != nil && next != leaves {
		return fmt.Errorf("%d of %d leaves are allotted", next, leaves)
	}
	return nil
}

func (c *Contract) checkDue() error {
	if c.Due == nil {
		return nil
	}
	if c.Terms == nil {
		return errors.New("attempts without terms")
	}
	return c.Due.check(c.Terms.Leaves)
}
