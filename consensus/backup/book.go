package backup

import (
	"fmt"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// book is what a ledger says of the state at its end, of what signatures in it prove: who is banned, which key a name has, who may join as
// an SN, which model is the newest, and who founded the group of SNs. A state that says otherwise was changed by who had the file.
type book struct {
	state      *state.State
	registered map[uint64]string // by number of the record that the state names: the node, until the record has come

	admit    string
	admitted map[string]string // by peer ID: the name
	banned   map[string]bool   // by peer ID; false: the ban was lifted
	models   map[string]model  // by contract: the newest one that was not lost
	recovery string            // digest of the newest recovery; empty: there was none
}

type model struct {
	run    uint64
	digest string
}

func newBook(s *state.State) *book {
	b := &book{
		state: s, registered: map[uint64]string{}, admitted: map[string]string{}, banned: map[string]bool{}, models: map[string]model{},
	}
	for name, n := range s.Nodes {
		if n.Recorded > 0 {
			b.registered[n.Recorded] = name
		}
	}
	return b
}

// add takes the record of a number.
func (b *book) add(seq uint64, body ledger.Body) error {
	switch x := body.(type) {
	case ledger.Swarm:
		b.admit = x.Admit
		for _, a := range x.Admitted {
			b.admitted[a.PeerID] = a.Node
		}
	case ledger.Registration:
		if name := b.registered[seq]; name != "" {
			n := b.state.Nodes[name]
			if n.Name != x.Node || n.PeerID != x.PeerID || n.Role != x.Role {
				return fmt.Errorf("%w: its state has node %s with another key or role than record %d of its ledger", ErrDamaged, name, seq)
			}
			delete(b.registered, seq)
		}
	case ledger.Admission:
		b.admitted[x.PeerID] = x.Node
	case ledger.Ban:
		b.banned[x.PeerID] = true
	case ledger.Unban:
		b.banned[x.PeerID] = false
	case ledger.Recovery:
		b.recovery = x.Digest()
		clear(b.admitted)
		b.admitted[x.PeerID] = x.Node
	case ledger.Round:
		b.models[x.Contract] = model{x.Run, x.Model}
	case ledger.AdoptedRound:
		b.models[x.Proof.Contract] = model{x.Proof.Run, x.Proof.Model}
	case ledger.LostModel: // training went back to one that this does not name
		delete(b.models, x.Contract)
	case ledger.Reset:
		delete(b.models, x.Contract)
	case ledger.Deleted:
		delete(b.models, x.Contract)
	}
	return nil
}

// end holds the state to what the whole ledger says.
func (b *book) end() error {
	s := b.state
	for seq, name := range b.registered {
		return fmt.Errorf("%w: its state has node %s as of record %d of its ledger, which is no registration", ErrDamaged, name, seq)
	}
	for id, banned := range b.banned {
		if banned != (s.Banned(id) != nil) {
			return fmt.Errorf("%w: its state and its ledger differ in whether node key %.80q is banned", ErrDamaged, id)
		}
	}
	if s.Admit != b.admit {
		return fmt.Errorf("%w: its state says that SNs are admitted by %.40q, its ledger by %.40q", ErrDamaged, s.Admit, b.admit)
	}
	for id, a := range s.Admitted {
		if b.admitted[id] != a.Name {
			return fmt.Errorf("%w: its state admits SN %.80q, and its ledger does not", ErrDamaged, a.Name)
		}
	}
	recovery := ""
	if n := len(s.Recoveries); n > 0 {
		recovery = s.Recoveries[n-1].Digest()
	}
	if recovery != b.recovery {
		return fmt.Errorf("%w: its state is of another founding of the group of SNs than its ledger", ErrDamaged)
	}
	for name, m := range b.models {
		c := s.Contracts[name]
		if c == nil || c.Run != m.run || c.Committed == nil || c.Committed.Digest != m.digest {
			return fmt.Errorf("%w: its state has another model of contract %.80q than its ledger", ErrDamaged, name)
		}
	}
	return nil
}
