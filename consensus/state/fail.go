package state

import (
	"fmt"
	"strings"
)

// FailContract ends all sessions of a run that have not ended: the training can't go on as it is.
type FailContract struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Reason   string `json:"reason"` // one line; cut at MaxEndReason
	// Below makes it void as soon as minPeers sessions of live nodes are there again.
	Below bool  `json:"below,omitempty"`
	AtMS  int64 `json:"at_ms"`
}

// Type implements Command.
func (FailContract) Type() string { return "fail_contract" }

func (f FailContract) apply(s *State) (Result, error) {
	if f.Reason == "" {
		return Result{}, reject(ReasonBadCommand, "", "a contract fails for a reason")
	}
	c, err := s.contractRun(f.Contract, f.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	active := c.Active()
	if c.Over || len(active) == 0 {
		return result, nil
	}
	live := uint64(0)
	for _, session := range active {
		if s.live(session.Node) {
			live++
		}
	}
	if f.Below && c.Terms != nil && live >= uint64(c.Terms.MinPeers) {
		return Result{}, reject(ReasonStalePlan, "", "contract %s has minPeers again", c.Name)
	}
	c.fail(f.Reason)
	result.Changed = true
	return result, nil
}

// fail ends all sessions, settles the contract and keeps the reason for people to see.
func (c *Contract) fail(reason string) {
	for _, session := range c.Active() {
		c.end(session.ID, reason, 0)
	}
	c.Plan = nil
	c.settle()
	c.PendingReason = Clip(reason, maxShort)
}

// notFinite reports whether a session's end is, by rule, the end of all.
func (c *Contract) notFinite(reason string) bool {
	return c.Rules != nil && c.Rules.NonFinite == NonFiniteFail && strings.HasPrefix(reason, EndNonFinite)
}

// failNotFinite ends all other sessions because the weights of a node are not finite.
func (c *Contract) failNotFinite(node, reason string) {
	c.fail(fmt.Sprintf("failed: all sessions end, as the contract's rules say, because of %s: %s", node, strings.TrimPrefix(reason, "failed: ")))
}
