package state

import (
	"maps"
	"slices"
)

// What one node may have in the state, however it comes by it. A node is a node key with the SPIFFE ID that it registered with.
const (
	MaxSessions      = 64       // that have not ended: as many as a report carries
	MaxEndedOfNode   = 512      // that have ended and are kept; the newest of each contract stays besides
	MaxContractsMade = 256      // contracts that its sessions made, and nobody by hand
	MaxNodeBytes     = 32 << 20 // of its sessions and of layouts that it brought, as they are encoded

	// MaxNodesOfID bounds the nodes of one SPIFFE ID: who holds an SVID of a shared entry can make node keys at will.
	MaxNodesOfID = 1024
	// MaxEndedInAll bounds the ended sessions of all, the newest of each node in each contract besides.
	MaxEndedInAll = 65_536
	// MaxMadeInAll bounds the contracts that sessions made, so that operators can still make some.
	MaxMadeInAll = maxContracts / 2
)

// within holds a node to what it may have in the state. known reports whether its session's contract was there.
func (o OpenSession) within(s *State, c *Contract, known bool) error {
	use := s.UseOf(o.Node)
	if c.SessionOf(o.Node) == nil && use.Open >= MaxSessions {
		return reject(ReasonQuota, "end sessions that are done", "node %s has %d open sessions already", o.Node, MaxSessions)
	}
	if len(c.Active()) >= MaxParticipants && c.SessionOf(o.Node) == nil {
		return reject(ReasonBadCommand, "wait until others have ended", "contract %s has %d open sessions already", c.Name, MaxParticipants)
	}
	if !known && (use.Contracts >= MaxContractsMade || s.sums.made >= MaxMadeInAll) {
		return reject(ReasonQuota, "use an existing contract, or ask an operator to make this one, or to delete others: swarmctl create contract "+c.Name+", swarmctl delete contract NAME",
			"node %s has made %d contracts, at most %d, and all nodes have made %d, at most %d", o.Node, use.Contracts, MaxContractsMade, s.sums.made, MaxMadeInAll)
	}
	if use.Bytes+layoutField(o.Terms.Layout) > MaxNodeBytes && !c.HoldsLayout(o.Terms.LayoutDigest) {
		return reject(ReasonQuota, "end sessions that are done, or ask an operator to delete contracts that are no longer used: swarmctl delete contract NAME",
			"sessions and layouts of node %s hold %d of %d bytes", o.Node, use.Bytes, MaxNodeBytes)
	}
	return nil
}

// trim forgets ended sessions beyond what nodes, and all together, may have, of the contracts that a command has touched: the
// oldest first, and never a node's newest in a contract. It reports whether it did.
func (s *State) trim() bool {
	if s.sums.ended <= MaxEndedInAll && !s.overfull() {
		return false
	}
	trimmed := false
	total, of := s.sums.ended, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(s.touched.contracts)) { // What is forgotten depends on the order: the same on every SN.
		c := s.Contracts[name]
		if c == nil {
			continue
		}
		newest := map[string]string{}
		sessions := sortedSessions(c.Sessions)
		for _, x := range sessions {
			if x.State == SessionEnded {
				newest[x.Node] = x.ID
			}
		}
		for _, x := range sessions {
			if x.State != SessionEnded || newest[x.Node] == x.ID || x.Run == c.Run && x.countsClosed() {
				continue
			}
			if s.sums.use[x.Node].Ended-of[x.Node] > MaxEndedOfNode || total > MaxEndedInAll {
				delete(c.Sessions, x.ID)
				of[x.Node]++
				total--
				trimmed = true
			}
		}
	}
	return trimmed
}

// overfull reports whether a node that the command was about has too many ended sessions.
func (s *State) overfull() bool {
	for name := range s.touched.contracts {
		c := s.Contracts[name]
		if c == nil {
			continue
		}
		for _, x := range c.Sessions {
			if s.sums.use[x.Node].Ended > MaxEndedOfNode {
				return true
			}
		}
	}
	return false
}

// ofID counts the nodes that registered with a SPIFFE ID.
func (s *State) ofID(spiffeID string) int {
	n := 0
	for _, node := range s.Nodes {
		if node.SPIFFEID == spiffeID {
			n++
		}
	}
	return n
}
