package state

import "github.com/swarmd/swarmd/consensus/ledger"

// programBodies are the records of which programs run in sessions that take part in a round, before the round's own: of each session once, and
// none of a session that takes part in no round. So an SL makes the ledger grow no faster than rounds do, whatever it opens.
func programBodies(s *State, c *Contract, sessions []string) (bodies []ledger.Body) {
	for _, id := range sessions {
		x := c.Sessions[id]
		if x == nil || x.Program == "" || s.Nodes[x.Node] == nil {
			continue
		}
		bodies = append(bodies, ledger.Program{
			Contract: c.Name, Run: c.Run, Session: id, Node: x.Node, PeerID: s.Nodes[x.Node].PeerID, Program: x.Program,
		})
	}
	return bodies
}

// tellPrograms notes that the ledger has what these sessions run, if there is a ledger.
func tellPrograms(s *State, c *Contract, sessions []string) {
	if s.Ledger == nil {
		return
	}
	for _, id := range sessions {
		if x := c.Sessions[id]; x != nil && x.Program != "" {
			n := *x
			n.Program = ""
			c.Sessions[id] = &n
		}
	}
}

// sessions are those of a plan's participants.
func (p *Plan) sessions() (ids []string) {
	for _, part := range p.Participants {
		ids = append(ids, part.Session)
	}
	return ids
}
