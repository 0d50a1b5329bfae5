package backup

import (
	"bytes"
	"fmt"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// ledgerCheck compares a state with its ledger, in what signatures in the ledger prove: who is banned, which key a name has, who may
// join as an SN, which model is the newest, which trainings are paused, and who founded the group of SNs. A state that says otherwise was changed by who had the
// file.
type ledgerCheck struct {
	state      *state.State
	registered map[uint64]string // by number of the record that the state names: the node, until the record has come

	admit    string
	admitted map[string]string            // by peer ID: the name
	invited  map[string]ledger.Invitation // by name: the newest
	claimed  map[uint64]string            // by number of the invitation: the peer ID of who claimed it
	invites  uint64                       // how many were made
	banned   map[string]bool              // by peer ID; false: the ban was lifted
	models   map[string]model             // by contract: the newest one that was not lost
	paused   map[string]bool              // by contract; false: the pause has ended
	recovery string                       // digest of the newest recovery; empty: there was none
}

type model struct {
	run    uint64
	digest string
}

func newLedgerCheck(s *state.State) *ledgerCheck {
	l := &ledgerCheck{
		state: s, registered: map[uint64]string{}, admitted: map[string]string{}, banned: map[string]bool{}, models: map[string]model{},
		paused: map[string]bool{}, invited: map[string]ledger.Invitation{}, claimed: map[uint64]string{},
	}
	for name, n := range s.Nodes {
		if n.Recorded > 0 {
			l.registered[n.Recorded] = name
		}
	}
	return l
}

// add takes the record of a number.
func (l *ledgerCheck) add(seq uint64, body ledger.Body) error {
	switch x := body.(type) {
	case ledger.Swarm:
		l.admit = x.Admit
		for _, a := range x.Admitted {
			l.admitted[a.PeerID] = a.Node
		}
	case ledger.Registration:
		if name := l.registered[seq]; name != "" {
			n := l.state.Nodes[name]
			if n.Name != x.Node || n.PeerID != x.PeerID || n.Role != x.Role {
				return fmt.Errorf("%w: its state has node %s with another key or role than record %d of its ledger", ErrDamaged, name, seq)
			}
			delete(l.registered, seq)
		}
	case ledger.Admission:
		l.admission(x)
	case ledger.Invitation:
		l.invited[x.Node], l.invites = x, x.Number
	case ledger.Forget:
		if x.Invitation != 0 {
			delete(l.invited, x.Node)
		}
	case ledger.Ban:
		l.banned[x.PeerID] = true
	case ledger.Unban:
		l.banned[x.PeerID] = false
	case ledger.Recovery:
		l.recovery = x.Digest()
		clear(l.admitted)
		clear(l.invited)
		l.admitted[x.PeerID] = x.Node
	case ledger.Pause:
		l.paused[x.Contract] = true
	case ledger.Resume:
		l.paused[x.Contract] = false
	case ledger.End:
		l.paused[x.Contract] = false
	case ledger.Over:
		l.paused[x.Contract] = false
	case ledger.Round:
		l.models[x.Contract] = model{x.Run, x.Model}
	case ledger.AdoptedRound:
		l.models[x.Proof.Contract] = model{x.Proof.Run, x.Proof.Model}
	case ledger.LostModel: // training went back to one that this does not name
		delete(l.models, x.Contract)
	case ledger.Reset:
		delete(l.models, x.Contract)
	case ledger.Deleted:
		delete(l.models, x.Contract)
		delete(l.paused, x.Contract)
	}
	return nil
}

// admission notes who may join, and what becomes of an invitation with it.
func (l *ledgerCheck) admission(x ledger.Admission) {
	l.admitted[x.PeerID] = x.Node
	switch {
	case x.Invitation != 0:
		l.claimed[x.Invitation] = x.PeerID
	case l.claimed[l.invited[x.Node].Number] == "":
		delete(l.invited, x.Node) // it was taken back with that
	}
}

// invitations holds those of the state to the ledger's. Who could add one, or open one again, would get in as an SN.
func (l *ledgerCheck) invitations() error {
	all := l.state.Invitations
	if all == nil {
		all = &state.Invitations{}
	}
	if all.Made != l.invites {
		return fmt.Errorf("%w: its state counts %d invitations of SNs, its ledger %d", ErrDamaged, all.Made, l.invites)
	}
	for name, i := range all.Kept {
		x := l.invited[name]
		if x.Number != i.Number || x.SPIFFEID != i.SPIFFEID || !bytes.Equal(x.Key, i.Key) || x.ExpiresMS != i.ExpiresMS || x.By != i.By || l.claimed[i.Number] != i.ClaimedBy {
			return fmt.Errorf("%w: its state has another invitation of SN %.80q than its ledger", ErrDamaged, name)
		}
	}
	return nil
}

// end holds the state to what the whole ledger says.
func (l *ledgerCheck) end() error {
	s := l.state
	for seq, name := range l.registered {
		return fmt.Errorf("%w: its state has node %s as of record %d of its ledger, which is no registration", ErrDamaged, name, seq)
	}
	for id, banned := range l.banned {
		if banned != (s.Banned(id) != nil) {
			return fmt.Errorf("%w: its state and its ledger differ in whether node key %.80q is banned", ErrDamaged, id)
		}
	}
	if s.Admit != l.admit {
		return fmt.Errorf("%w: its state says that SNs are admitted by %.40q, its ledger by %.40q", ErrDamaged, s.Admit, l.admit)
	}
	for id, a := range s.Admitted {
		if l.admitted[id] != a.Name {
			return fmt.Errorf("%w: its state admits SN %.80q, and its ledger does not", ErrDamaged, a.Name)
		}
	}
	if err := l.invitations(); err != nil {
		return err
	}
	recovery := ""
	if n := len(s.Recoveries); n > 0 {
		recovery = s.Recoveries[n-1].Digest()
	}
	if recovery != l.recovery {
		return fmt.Errorf("%w: its state is of another founding of the group of SNs than its ledger", ErrDamaged)
	}
	for name, paused := range l.paused {
		if c := s.Contracts[name]; c == nil || c.Halt.Pauses() != paused {
			return fmt.Errorf("%w: its state and its ledger differ in whether contract %.80q is paused", ErrDamaged, name)
		}
	}
	for name, m := range l.models {
		c := s.Contracts[name]
		if c == nil || c.Run != m.run || c.Committed == nil || c.Committed.Digest != m.digest {
			return fmt.Errorf("%w: its state has another model of contract %.80q than its ledger", ErrDamaged, name)
		}
	}
	return nil
}
