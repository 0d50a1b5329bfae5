package planner

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// facts are what a decision goes by: the inputs, seen from the contract. They answer questions and change nothing.
type facts struct {
	in     Inputs
	cfg    Config // the times that hold for the contract
	c      *state.Contract
	method *merge.Method // nil until the terms are fixed
}

func newFacts(in Inputs, c *state.Contract) *facts {
	f := &facts{in: in, cfg: in.Config.withDefaults().under(c), c: c}
	if c.Terms != nil {
		f.method, _ = merge.ParseMethod(c.Terms.Method) // as checked when the terms were fixed
	}
	return f
}

// round is the one that is due.
func (f *facts) round() uint64 { return f.c.Round() + 1 }

func (f *facts) onBase(r *round.Ready) bool {
	if f.c.Committed == nil {
		return r.BaseRound == 0
	}
	return r.BaseRound == f.c.Committed.Round && r.BaseDigest == f.c.Committed.Digest
}

// left counts the nodes that had a session in this run, left and have not come back: they are not expected.
func (f *facts) left() int {
	left := map[string]bool{}
	for _, s := range f.c.Sessions {
		if n := f.in.View.Nodes[s.Node]; s.Run == f.c.Run && n != nil && n.Left() {
			left[s.Node] = true
		}
	}
	return len(left)
}

// checkPlan returns which rule forbids a round of these participants, or nil.
func (f *facts) checkPlan(parts []state.Participant) error {
	if err := f.c.CheckPlan(parts); err != nil {
		return err
	}
	allotted, err := f.in.View.Allot(f.c, parts)
	switch state.ReasonOf(err) {
	case state.ReasonNoOwner, state.ReasonWitnesses:
		return err
	case "":
		return f.reportable(allotted)
	}
	return nil
}

// gonePairs names the owners of leaves of which neither is among the participants.
func (f *facts) gonePairs(parts []state.Participant) []string {
	names, there := map[string]string{}, map[string]bool{}
	for _, n := range f.in.View.Nodes {
		names[n.PeerID] = n.Name
	}
	for _, p := range parts {
		if n := f.in.View.Nodes[p.Node]; n != nil {
			there[n.PeerID] = true
		}
	}
	var gone []string
	if f.c.Due != nil {
		for _, r := range f.c.Due.Runs {
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

// planned returns the name of a node that takes part in the running attempt, of others none.
func (f *facts) planned(node string) string {
	if slices.ContainsFunc(f.c.Plan.Participants, func(p state.Participant) bool { return p.Node == node }) {
		return node
	}
	return ""
}

// banned reports whether a participant was banned since the attempt was planned.
func (f *facts) banned() bool {
	return slices.ContainsFunc(f.c.Plan.Participants, func(p state.Participant) bool {
		s := f.c.Sessions[p.Session]
		return s != nil && s.EndReason == state.EndBanned
	})
}

// renewed names a participant that had a SPIFFE ID with others when the attempt was planned, and has its own now. Witnesses are told
// apart by it, so what participants sign of the plan depends on when they have seen it.
func (f *facts) renewed() string {
	p := f.c.Plan
	for _, part := range p.Participants {
		n := f.in.View.Nodes[part.Node]
		if p.Witnesses > 0 && part.SPIFFEID == "" && n != nil && state.OwnID(n.SPIFFEID) {
			return part.Node
		}
	}
	return ""
}
