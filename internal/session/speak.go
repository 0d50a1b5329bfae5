package session

import (
	"bytes"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/statement"
)

// lastSaid is what a session has reported last. Heartbeats repeat it: to sign each would cost more than to send it.
type lastSaid struct {
	number uint64
	said   []byte // statement.Message without the number
	sig    []byte // nil: the SN that it was told leads, and nobody has asked for one
}

// livesApart is far more than what a session can say between two entries in its journal: a later life begins so far behind the
// last number that is kept.
const livesApart = 1 << 20

// numberLocked numbers a report, and signs it if it is to be passed on.
func (s *session) numberLocked(r *round.Report, passedOn bool) {
	e := s.engine
	if e.cfg.Sign == nil {
		return
	}
	if said := statement.Message(e.cfg.Peer, r); s.spoken.said == nil || !bytes.Equal(said, s.spoken.said) {
		s.spoken = lastSaid{number: s.spoken.number + 1, said: said}
	}
	r.Number = s.spoken.number
	if passedOn && s.spoken.sig == nil {
		sig, err := e.cfg.Sign(statement.Message(e.cfg.Peer, r))
		if err != nil { // the swarm refuses the report and says why
			e.cfg.Log.Error("sign what is reported", "contract", s.contract, "err", err)
			return
		}
		s.spoken.sig = sig
	}
	if passedOn {
		r.Signature = s.spoken.sig
	}
}
