package state

import (
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// MaxRecoveries is how many recoveries a state keeps, for nodes that still follow an older epoch.
const MaxRecoveries = 8

// RecoverSwarm founds the group of SNs anew: the SN that the recovery names is the only one, and all others may join as new nodes.
// It is never an entry of a log, as no group has agreed on it: it makes the snapshot with which the new group begins, and no log that
// has one can be read.
type RecoverSwarm struct {
	Recovery ledger.Recovery `json:"recovery"`
}

// Type implements Command.
func (RecoverSwarm) Type() string { return "recover_swarm" }

func (c RecoverSwarm) apply(s *State) (Result, error) {
	r := c.Recovery
	head := s.LedgerHead()
	switch {
	case r.SwarmID != s.SwarmID || s.SwarmID == "":
		return Result{}, reject(ReasonOtherSwarm, "", "this swarm is %s, not %s", s.SwarmID, clip(r.SwarmID, maxShort))
	case r.Epoch != s.Epoch()+1 || r.Epoch > ledger.MaxEpoch || r.Previous != s.recoveryDigest():
		return Result{}, reject(ReasonBadCommand, "", "a recovery to epoch %d does not follow on epoch %d", r.Epoch, s.Epoch())
	case r.Had != ledger.Witness{Length: head.Length, Hash: head.Hash}:
		return Result{}, reject(ReasonBadCommand, "", "the recovery is signed for another ledger than this one, of %d records", head.Length)
	case !goodRecovery(r) || len(r.Signature) == 0:
		return Result{}, reject(ReasonBadCommand, "", "a recovery out of bounds")
	}
	for _, n := range s.NodesByRole(naming.RoleSN) {
		if n.Name != r.Node || n.PeerID != r.PeerID {
			s.forgetNode(n.Name)
		}
		s.dismiss(n.PeerID)
	}
	for _, a := range s.Admissions() {
		s.dismiss(a.PeerID)
	}
	if s.Invitations != nil {
		s.Invitations = &Invitations{Made: s.Invitations.Made}
	}
	if s.Admit != "" {
		s.admit(&Admission{Name: r.Node, PeerID: r.PeerID, By: r.By, AtMS: r.AskedMS})
	}
	s.Recoveries = append(s.Recoveries, r)
	if n := len(s.Recoveries) - MaxRecoveries; n > 0 {
		s.Recoveries = s.Recoveries[n:]
	}
	return Result{Changed: true}, nil
}

func (c RecoverSwarm) records(_, _ *State) (int64, []ledger.Body) {
	return c.Recovery.AskedMS, []ledger.Body{c.Recovery}
}

// Epoch counts the foundings of the group of SNs, from 1.
func (s *State) Epoch() uint64 {
	if len(s.Recoveries) == 0 {
		return 1
	}
	return s.Recoveries[len(s.Recoveries)-1].Epoch
}

// recoveryDigest is that of the newest recovery; empty: there was none.
func (s *State) recoveryDigest() string {
	if len(s.Recoveries) == 0 {
		return ""
	}
	return s.Recoveries[len(s.Recoveries)-1].Digest()
}

// goodRecovery holds the fields of a recovery to their bounds.
func goodRecovery(r ledger.Recovery) bool {
	return naming.ValidNode(r.Node) && validPeerID(r.PeerID) && fits(maxSPIFFEID, r.By) && printable(r.By) && fits(maxShort, r.SwarmID) &&
		(r.Previous == "" || validHex(r.Previous, 64)) && (r.Had.Hash == "" || validHex(r.Had.Hash, 64)) &&
		len(r.Signature) <= MaxSignature && len(r.Chain) <= MaxChain && total(r.Chain) <= MaxChainBytes
}

// checkRecoveries holds that the recoveries follow each other, unless they are old's.
func (s *State) checkRecoveries(old *State) bool {
	if len(s.Recoveries) == len(old.Recoveries) && (len(s.Recoveries) == 0 || &s.Recoveries[0] == &old.Recoveries[0]) {
		return true
	}
	if len(s.Recoveries) > MaxRecoveries {
		return false
	}
	for i, r := range s.Recoveries {
		if !goodRecovery(r) || r.SwarmID != s.SwarmID || r.Epoch < 2 || r.Epoch > ledger.MaxEpoch {
			return false
		}
		if i > 0 && (r.Epoch != s.Recoveries[i-1].Epoch+1 || r.Previous != s.Recoveries[i-1].Digest()) {
			return false
		}
	}
	return true
}
