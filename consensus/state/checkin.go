package state

import "slices"

// Check-in modes: what a closed session contributes.
const (
	CheckinSnapshot = "snapshot" // its last local weights
	CheckinActive   = "active"   // the last merged weights
	CheckinInactive = "inactive" // nothing
	CheckinOnce     = "once"     // its last local weights, until they were in one committed round
)

// Who chose a session's check-in mode, where its program did not.
const (
	CheckinFromRule = "rule" // the contract's rules
	CheckinFromNode = "node" // its node's default
	CheckinFromNone = "none" // nobody: it is that of the original
)

// ValidCheckin reports whether there is such a check-in mode.
func ValidCheckin(mode string) bool {
	return slices.Contains([]string{CheckinSnapshot, CheckinActive, CheckinInactive, CheckinOnce}, mode)
}

func badCheckin(mode string) error {
	return reject(ReasonBadCommand, "use snapshot, active, inactive or once", "bad checkinModelOnTrainEnd %q", clip(mode, 80))
}

// Checkin returns the mode of a session, and who chose it, by what its program, the contract's rules and its node say, in this order;
// each may be empty. What a program chose is obeyed. A rule speaks before a node's default, so that the peers of a contract do alike.
func Checkin(program, rule, node string) (mode, from string) {
	switch {
	case program != "":
		return program, ""
	case rule != "":
		return rule, CheckinFromRule
	case node != "":
		return node, CheckinFromNode
	}
	return CheckinSnapshot, CheckinFromNone
}

// checkin is Checkin under rules, which may be nil.
func (o OpenSession) checkin(r *Rules) (mode, from string) {
	rule := ""
	if r != nil {
		rule = r.CheckinDefault
	}
	if mode, from = Checkin(o.CheckinMode, rule, o.CheckinDefault); from == CheckinFromNone && !o.KeepChooser {
		from = ""
	}
	return mode, from
}

// chooses takes the mode that a close names, if any. An SL names what it goes by, whoever chose it; snapshot it names only if its
// program did.
func (s *Session) chooses(mode string) {
	if mode != "" && (mode != s.CheckinMode || s.CheckinFrom == CheckinFromNone) {
		s.CheckinMode, s.CheckinFrom = mode, ""
	}
}

// tracksClosed reports whether the rounds are counted in which what the session left at its close has a weight: where its weight
// depends on it, and where nobody chose its mode, as that is warned of.
func (s *Session) tracksClosed() bool {
	return s.CheckinMode == CheckinOnce || s.CheckinFrom == CheckinFromNone
}

// counted notes that a round was committed with this part of the session in it, and which one if that is kept.
func (s *Session) counted(part Participant, round uint64, keep bool) {
	if !s.Closed || !s.tracksClosed() || part.Weight == 0 || part.Seq <= s.ClosedSeq {
		return
	}
	s.ClosedRounds++
	if keep && s.CheckinMode == CheckinOnce && s.ClosedRounds == 1 {
		s.CountedIn = round
	}
}

// uncount has those count anew whose last training is in no model that is left: all models after a round were lost.
func uncount(c *Contract, after uint64) {
	for id, s := range c.Sessions {
		if s.Run == c.Run && s.CountedIn > after {
			n := *s
			n.CountedIn, n.ClosedRounds = 0, 0
			c.Sessions[id] = &n
		}
	}
}

// KeepsCounted reports whether a commit of the plan is to keep in which round sessions of the contract count whose mode is once; see
// CommitRound.
func (p *Plan) KeepsCounted(c *Contract) bool {
	return slices.ContainsFunc(p.Participants, func(part Participant) bool {
		s := c.Sessions[part.Session]
		return s != nil && s.State == SessionClosed && s.CheckinMode == CheckinOnce && part.Weight > 0
	})
}

// CountedOnce reports whether what the session left was in a committed round, and its mode has it count no longer than that.
func (s *Session) CountedOnce() bool {
	return s.State == SessionClosed && s.CheckinMode == CheckinOnce && s.ClosedRounds > 0
}
