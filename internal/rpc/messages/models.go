package messages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// Models lists what live nodes hold, newest first.
func Models(view *state.State, c *state.Contract, st planner.Status) *swarmv1.ListModelsResponse {
	out := &swarmv1.ListModelsResponse{Run: c.Run, Export: c.Rules != nil && c.Rules.Export}
	if c.Terms != nil {
		out.Layout, out.Method = c.Terms.Layout, c.Terms.Method
	}
	by := map[round.Model]*swarmv1.Model{}
	for id, held := range st.Held {
		x := c.Sessions[id]
		if x == nil || x.Run != c.Run || view.Nodes[x.Node] == nil || !view.Nodes[x.Node].Live {
			continue
		}
		for _, h := range held {
			if by[h] == nil {
				by[h] = model(c, st, h)
				out.Models = append(out.Models, by[h])
			}
			by[h].Holders = append(by[h].Holders, holder(x, view.Nodes[x.Node]))
		}
	}
	slices.SortFunc(out.Models, func(a, b *swarmv1.Model) int {
		return cmp.Or(cmp.Compare(b.Round, a.Round), strings.Compare(a.Digest, b.Digest), strings.Compare(a.StateDigest, b.StateDigest))
	})
	for _, m := range out.Models {
		slices.SortFunc(m.Holders, func(a, b *swarmv1.Session) int { return strings.Compare(a.Node, b.Node) })
	}
	out.Note = unheld(c, out)
	return out
}

// model adds what the leader knows of a model that is held.
func model(c *state.Contract, st planner.Status, h round.Model) *swarmv1.Model {
	m := &swarmv1.Model{Round: h.Round, Digest: h.Digest, StateDigest: h.State}
	for _, r := range st.Recent {
		if r.Round == h.Round && r.Digest == h.Digest {
			m.CommittedUnixMs = r.CommittedMS
		}
	}
	if last := c.Committed; last != nil && last.Round == h.Round && last.Digest == h.Digest {
		m.CommittedUnixMs, m.Final = last.CommittedMS, c.Over
	}
	return m
}

// holder is a session as far as a fetcher needs it.
func holder(x *state.Session, n *state.Node) *swarmv1.Session {
	return &swarmv1.Session{Id: x.ID, Node: x.Node, PeerId: n.PeerID, SpiffeId: n.SPIFFEID, Host: n.Host, FsPort: uint32(n.FSPort), Live: true}
}

// unheld says who had the committed model last, if no node that runs has it; empty else.
func unheld(c *state.Contract, list *swarmv1.ListModelsResponse) string {
	last := c.Committed
	if !c.HasModel() {
		if c.Lost != nil {
			return c.Lost.String()
		}
		return "no round was committed yet"
	}
	if slices.ContainsFunc(list.Models, func(m *swarmv1.Model) bool { return m.Round == last.Round && m.Digest == last.Digest }) {
		return ""
	}
	what := fmt.Sprintf("the model of round %d", last.Round)
	if c.Over {
		what = fmt.Sprintf("the final model (round %d)", last.Round)
	}
	who := "a node that has left since"
	if len(last.Participants) > 0 {
		who = strings.Join(last.Participants, ", ")
	}
	return fmt.Sprintf("%s is held by no node that runs: last by %s, where a copy lies under models/%s in the state directory", what, who, c.Name)
}
