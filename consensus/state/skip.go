package state

// Skips count the rounds of a run that were given up: programs went on without a model.
type Skips struct {
	Count   uint64 `json:"count"`
	Round   uint64 `json:"round"`   // the last one that was: the number is used again
	Attempt uint64 `json:"attempt"` // its last attempt
	Reason  string `json:"reason"`
	AtMS    int64  `json:"at_ms"`
}

// SkipRound gives up the round that is due with what sessions offered for it. Their Syncs are answered without a model, so that
// the programs go on training, and what they offer next is new: it may go to other owners. The round's number stays and its
// attempts are counted on; nothing that was merged is resumed.
type SkipRound struct {
	Contract string            `json:"contract"`
	Run      uint64            `json:"run"`
	Round    uint64            `json:"round"`    // the last committed one plus 1
	Attempt  uint64            `json:"attempt"`  // the last one
	Sessions map[string]uint64 `json:"sessions"` // whose Sync is answered: the Sync's number
	Reason   string            `json:"reason"`
	AtMS     int64             `json:"at_ms"`
}

// Type implements Command.
func (SkipRound) Type() string { return "skip_round" }

func (k SkipRound) apply(s *State) (Result, error) {
	c, err := s.contractRun(k.Contract, k.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	if c.Over {
		return Result{}, contractOver(c.Name)
	}
	if c.Terms == nil {
		return Result{}, reject(ReasonTermsOpen, "", "contract %s: the terms are not fixed yet", c.Name)
	}
	if len(k.Sessions) == 0 || len(k.Sessions) > MaxParticipants || k.Reason == "" {
		return Result{}, reject(ReasonBadCommand, "", "a round is skipped for a reason, and for at most %d sessions", MaxParticipants)
	}
	if k.Round != c.Round()+1 || k.Attempt != c.Attempt {
		return Result{}, reject(ReasonStalePlan, "", "contract %s: attempt %d of round %d was the last one, not %d of %d",
			c.Name, c.Attempt, c.Round()+1, k.Attempt, k.Round)
	}
	fresh := false
	for id, seq := range k.Sessions {
		session := c.Sessions[id]
		if session == nil || session.Run != c.Run || session.State != SessionOpen {
			return Result{}, reject(ReasonSessionUnknown, "", "contract %s: no open session %q to skip", c.Name, clip(id, 80))
		}
		if seq <= session.LastSeq {
			return Result{}, reject(ReasonStalePlan, "", "contract %s: Sync %d of %s was answered", c.Name, seq, session.Node)
		}
		fresh = fresh || seq > session.SkippedSeq
	}
	if !fresh {
		return result, nil
	}
	for id, seq := range k.Sessions {
		n := *c.Sessions[id]
		n.SkippedSeq = max(n.SkippedSeq, seq)
		c.Sessions[id] = &n
	}
	c.skip(k)
	result.Changed = true
	return result, nil
}

// skip forgets who owned what, unless an open session still offers what the owners may have leaves of.
func (c *Contract) skip(k SkipRound) {
	next := c.due().spend()
	for id, seq := range c.due().Sent {
		if session := c.Sessions[id]; session != nil && session.State == SessionOpen && seq > session.SkippedSeq {
			next = c.due()
			break
		}
	}
	next.Epoch++
	skips := Skips{Count: 1, Round: k.Round, Attempt: k.Attempt, Reason: Clip(k.Reason, maxShort), AtMS: k.AtMS}
	if c.Skips != nil {
		skips.Count += c.Skips.Count
	}
	c.Due, c.Skips, c.Plan, c.PendingReason = &next, &skips, nil, skips.Reason
}
