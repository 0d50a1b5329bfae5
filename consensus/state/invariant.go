package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Check returns what must never be true of a state, joined, or nil. A node that finds an error here must stop.
func Check(s *State) error {
	if s == nil || s.Nodes == nil || s.Contracts == nil {
		return errors.New("state without nodes or contracts")
	}
	var errs []error
	if s.Contracts[DefaultContract] == nil {
		errs = append(errs, errors.New("the default contract is missing"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		n := s.Nodes[name]
		if n == nil || n.Name != name || !ValidNodeName(name) || n.PeerID == "" || len(n.TokenHashes) > maxTokens || !n.checkLeft() {
			errs = append(errs, fmt.Errorf("bad node under %q", clip(name, 80)))
		}
	}
	for _, name := range s.ContractNames() {
		if c := s.Contracts[name]; c == nil || c.Name != name || !ValidContractName(name) || c.Sessions == nil {
			errs = append(errs, fmt.Errorf("bad contract under %q", clip(name, 160)))
		} else if err := s.checkContract(c); err != nil {
			errs = append(errs, fmt.Errorf("contract %s: %w", name, err))
		}
	}
	if len(errs) == 0 && !s.checkBans() {
		errs = append(errs, errors.New("bad ban, or a banned node that is alive, has a token or a session"))
	}
	if !s.checkLedger() {
		errs = append(errs, errors.New("bad end of the ledger, or trust bundles without one"))
	}
	return errors.Join(errs...)
}

func (s *State) checkContract(c *Contract) error {
	if err := errors.Join(s.checkSessions(c), c.checkCommitted()); err != nil {
		return err
	}
	switch {
	case c.Run < 1:
		return errors.New("no run")
	case c.Rules != nil && (c.Rules.none() || c.Rules.check() != nil):
		return errors.New("rules that demand nothing or are out of bounds")
	case c.FinalPending != c.FinalDue():
		return errors.New("FinalPending is not what FinalDue says")
	case len(c.RecentCommitMS) > maxRecent:
		return errors.New("too many commit times")
	case c.Over && (c.Committed == nil || !c.Committed.Final || c.Plan != nil):
		return errors.New("over without a final model, or with a plan")
	case c.Plan != nil:
		return c.checkPlan()
	}
	return nil
}

func (s *State) checkSessions(c *Contract) error {
	orders, holders := map[uint64]bool{}, map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(c.Sessions)) {
		session := c.Sessions[id]
		if session == nil || session.ID != id || session.Run > c.Run || session.Order >= c.NextOrder || orders[session.Order] {
			return fmt.Errorf("bad session under %q", clip(id, 80))
		}
		orders[session.Order] = true
		if (session.State == SessionEnded) != (session.EndReason != "") {
			return fmt.Errorf("session %s: state %s with end reason %q", id, session.State, session.EndReason)
		}
		if session.State == SessionEnded {
			continue
		}
		if session.State != SessionOpen && session.State != SessionClosed || (session.State == SessionClosed) != session.Closed {
			return fmt.Errorf("session %s: state %q", id, clip(session.State, 80))
		}
		if n := s.Nodes[session.Node]; session.Run != c.Run || holders[session.Node] || n == nil || n.Left() {
			return fmt.Errorf("session %s: old run, second session, or node %s is unknown or has left", id, session.Node)
		}
		holders[session.Node] = true
		if c.Terms != nil && !c.Terms.Same(session.Terms) {
			return fmt.Errorf("session %s has other terms than the contract", id)
		}
	}
	return nil
}

func (c *Contract) checkPlan() error {
	p := c.Plan
	switch {
	case c.Terms == nil:
		return errors.New("plan without terms")
	case p.Run != c.Run || p.Round != c.Round()+1 || p.Attempt != c.Attempt || p.Attempt < 1:
		return fmt.Errorf("plan of run %d round %d attempt %d", p.Run, p.Round, p.Attempt)
	case uint64(len(p.Participants)) < uint64(c.Terms.MinPeers):
		return errors.New("plan with fewer than minPeers")
	}
	next := uint64(0)
	for _, part := range p.Participants {
		if part.ShardFirst != next {
			return errors.New("plan with shards that do not tile")
		}
		next += part.ShardLeaves
	}
	if next != c.Terms.Leaves {
		return errors.New("plan with shards that do not tile")
	}
	return nil
}
