package session

import (
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// checkinLocked is what this node contributes once its training has ended: as its program chose, else as the contract's rules say, else
// as this node does.
func (s *session) checkinLocked() string {
	mode, _ := state.Checkin(s.open.CheckinMode, s.view.Rules.CheckinDefault, s.open.CheckinDefault)
	return mode
}

// closeRequestLocked names the mode that this node goes by where an SN need not know it: older ones know no defaults, and not once.
func (s *session) closeRequestLocked() round.Close {
	mode, from := state.Checkin(s.open.CheckinMode, s.view.Rules.CheckinDefault, s.open.CheckinDefault)
	if from != "" && mode != state.CheckinActive && mode != state.CheckinInactive {
		mode = ""
	}
	return round.Close{Session: s.id, Contract: s.contract, Run: s.run, CheckinMode: mode, Seq: s.program.lastSeq, Weight: s.samples()}
}
