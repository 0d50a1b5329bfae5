package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
)

// Check returns what must never be true of a state, joined, or nil. A node that finds an error here must stop. It looks at all
// of it; after a command CheckChange is enough.
func Check(s *State) error {
	if s == nil || s.Nodes == nil || s.Contracts == nil {
		return errors.New("state without nodes or contracts")
	}
	again := *s
	again.touched = nil
	if err := CheckChange(&State{}, &again); err != nil {
		return err
	}
	if err := again.count(&State{}); err != nil {
		return fmt.Errorf("the state can't be counted: %w", err)
	}
	if !again.sums.equal(s.sums) {
		return fmt.Errorf("the running sums are wrong: %d bytes, and there are %d", s.sums.size, again.sums.size)
	}
	return nil
}

// CheckChange is Check of what s does not share with old, from which a command made it; old must be without fault. Its cost
// is that of the command.
func CheckChange(old, s *State) error {
	var errs []error
	if s.Contracts[DefaultContract] == nil {
		errs = append(errs, errors.New("the default contract is missing"))
	}
	for name, pair := range s.nodesSince(old) {
		if err := s.checkNode(name, pair[1]); err != nil {
			errs = append(errs, err)
		}
	}
	for name, pair := range s.contractsSince(old) {
		c := pair[1]
		if _, kept := s.Contracts[name]; !kept {
			continue
		}
		if c == nil || c.Name != name || !naming.ValidContract(name) || c.Sessions == nil {
			errs = append(errs, fmt.Errorf("bad contract under %q", clip(name, 160)))
		} else if err := s.checkContract(c); err != nil {
			errs = append(errs, fmt.Errorf("contract %s: %w", name, err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, s.checkBans(old), s.checkAdmitted(old), s.Invitations.check(s.Admit, old.Invitations), s.Tasks.Check(old.Tasks), s.Rights.check())
	}
	if !s.checkLedger() {
		errs = append(errs, errors.New("bad end of the ledger, or trust bundles without one"))
	}
	if !s.checkRecoveries(old) {
		errs = append(errs, errors.New("recoveries that do not follow each other, or are out of bounds"))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return errors.Join(errs...)
}

// checkNode looks at what stands under a node's name; nil: it is gone.
func (s *State) checkNode(name string, n *Node) error {
	if n == nil {
		if _, there := s.Nodes[name]; there {
			return fmt.Errorf("bad node under %q", clip(name, 80))
		}
	} else if n.Name != name || !naming.ValidNode(name) || n.PeerID == "" || len(n.TokenHashes) > maxTokens || !n.checkLeft() {
		return fmt.Errorf("bad node under %q", clip(name, 80))
	}
	if open := s.sums.use[name].Open; open > 0 && (n == nil || n.Left()) {
		return fmt.Errorf("node %s is unknown or has left, and has %d open sessions", name, open)
	}
	return s.checkShutOut(n)
}

func (s *State) checkContract(c *Contract) error {
	if err := errors.Join(s.checkSessions(c), c.checkCommitted(), c.checkDue(), c.Halt.check(c.Over)); err != nil {
		return err
	}
	switch {
	case c.Run < 1:
		return errors.New("no run")
	case c.Rules != nil && (c.Rules.none() || c.Rules.check() != nil):
		return errors.New("rules that demand nothing or are out of bounds")
	case c.FinalPending != c.FinalDue():
		return errors.New("FinalPending is not what FinalDue says")
	case len(c.Fetches) > maxFetches:
		return errors.New("too many fetches")
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
		if session.CountedIn > 0 && (session.ClosedRounds == 0 || session.Run == c.Run && session.CountedIn > c.Round()) {
			return fmt.Errorf("session %s has counted in round %d, in %d rounds of %d", id, session.CountedIn, session.ClosedRounds, c.Round())
		}
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
	if err := c.checkShards(p.Participants); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}
