package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// AdmitOperator is the policy that an operator admits each SN before it joins.
const AdmitOperator = "operator"

// MaxAdmitted is how many node keys may be admitted at a time: SNs, and those that have not joined yet.
const MaxAdmitted = 256

// Admission lets one node key join as the SN of one name. It lasts until the node is forgotten or the key is banned.
type Admission struct {
	Name   string `json:"name"`
	PeerID string `json:"peer_id"`      // libp2p peer ID of the node key
	By     string `json:"by,omitempty"` // SPIFFE ID of who admitted it; empty: it founded the swarm
	AtMS   int64  `json:"at_ms"`
	// Invitation is the number of the invitation that the key has claimed; 0: it was admitted by its key.
	Invitation uint64 `json:"invitation,omitempty"`
	// SPIFFEID is that of the invitation, which the SN must bear; empty: it was admitted by its key.
	SPIFFEID string `json:"spiffe_id,omitempty"`
}

// CheckAdmission returns why a node key may not join as the SN of this name, as an *Error with ReasonNotAdmitted, or nil.
func (s *State) CheckAdmission(name, peerID string) error {
	if s.Admit == "" {
		return nil
	}
	if a := s.Admitted[peerID]; a != nil && a.Name == name {
		return nil
	}
	return reject(ReasonNotAdmitted, "an operator of the swarm admits it: swarmctl admit node "+clip(name, naming.MaxNode)+" --peer-id "+clip(peerID, maxShort),
		"no operator has admitted SN %s with node key %s", clip(name, naming.MaxNode), clip(peerID, maxShort))
}

// checkInvited returns why an SN that an invitation has admitted may not register with its SPIFFE ID; a may be nil.
func checkInvited(a *Admission, n Node) error {
	if a != nil && a.SPIFFEID != "" && a.SPIFFEID != n.SPIFFEID {
		return reject(ReasonNameTaken, "register with the SVID of the invitation, or: swarmctl forget node "+n.Name+", and admit it by its key",
			"SN %s was invited for SPIFFE ID %s, not for %s", n.Name, a.SPIFFEID, clip(n.SPIFFEID, maxShort))
	}
	return nil
}

// admittedAs returns the admission under a name, or nil.
func (s *State) admittedAs(name string) *Admission {
	for _, a := range s.Admitted {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Admissions returns all admissions, by name.
func (s *State) Admissions() []*Admission {
	return slices.SortedFunc(maps.Values(s.Admitted), func(a, b *Admission) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
}

// admit adds an admission; one of the same name or key goes.
func (s *State) admit(a *Admission) {
	if other := s.admittedAs(a.Name); other != nil {
		s.dismiss(other.PeerID)
	}
	if s.Admitted == nil {
		s.Admitted = map[string]*Admission{}
	}
	s.Admitted[a.PeerID] = a
}

// dismiss takes a key's admission back, if it has one.
func (s *State) dismiss(peerID string) {
	if s.Admitted[peerID] == nil {
		return
	}
	delete(s.Admitted, peerID)
}

// AdmitNode lets a node key join as the SN of a name, in a swarm whose operators admit SNs. Another key that was admitted under that
// name and has not joined is admitted no longer, and an invitation for the name that nobody has claimed is taken back.
type AdmitNode struct {
	Node   string        `json:"node"`
	PeerID string        `json:"peer_id"`
	By     string        `json:"by"` // SPIFFE ID of who admits it
	AtMS   int64         `json:"at_ms"`
	Order  *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (AdmitNode) Type() string { return "admit_node" }

// OrderOf implements Ordered.
func (c AdmitNode) OrderOf() *ledger.Order { return c.Order }

func (c AdmitNode) apply(s *State) (Result, error) {
	a := &Admission{Name: c.Node, PeerID: c.PeerID, By: c.By, AtMS: c.AtMS}
	if err := a.check(); err != nil {
		return Result{}, err
	}
	if err := checkAdmitting(s); err != nil {
		return Result{}, err
	}
	if err := checkCandidate(s, c.Node, c.PeerID); err != nil {
		return Result{}, err
	}
	if s.CheckAdmission(c.Node, c.PeerID) == nil {
		return Result{}, nil
	}
	if err := admitWithin(s, a); err != nil {
		return Result{}, err
	}
	if s.Invitations.unclaimed(c.Node) != nil {
		s.Invitations = s.Invitations.without(c.Node)
	}
	return Result{Changed: true}, nil
}

// checkAdmitting returns an error where SNs need no admission.
func checkAdmitting(s *State) error {
	if s.Admit == "" {
		return reject(ReasonAdmissionOff, "a swarm asks for it from its founding on: run-sn --admit operator", "SNs of this swarm join without an operator's word")
	}
	return nil
}

// checkCandidate returns why no admission could let a node key join as the SN of a name.
func checkCandidate(s *State, node, peerID string) error {
	if err := s.CheckBan(peerID); err != nil {
		return err
	}
	if n := s.Nodes[node]; n != nil && n.PeerID != peerID {
		return reject(ReasonNameTaken, "start it under another --name, or: swarmctl forget node "+n.Name, "the name %s belongs to node key %s", n.Name, n.PeerID)
	} else if n != nil && n.Role != naming.RoleSN {
		return reject(ReasonRoleChanged, "start it under another --name, or: swarmctl forget node "+n.Name, "node %s is registered as %s, not as an SN", n.Name, n.Role)
	}
	if other := s.holder(peerID, node); other != "" {
		return reject(ReasonKeyTaken, "give each node a state directory of its own, or: swarmctl forget node "+other, "the node key of %s is registered as node %s already", node, other)
	}
	return nil
}

// admitWithin admits as long as there is room.
func admitWithin(s *State, a *Admission) error {
	if s.admit(a); len(s.Admitted) > MaxAdmitted {
		return reject(ReasonBadCommand, "forget SNs that are gone: swarmctl forget node NAME", "%d node keys are admitted already, more can't be", MaxAdmitted)
	}
	return nil
}

func (c AdmitNode) records(_, _ *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{ledger.Admission{Node: c.Node, PeerID: c.PeerID, By: c.By, Order: c.Order}}
}

func (a *Admission) check() error {
	switch {
	case !naming.ValidNode(a.Name):
		return reject(ReasonBadCommand, "use 1 to 63 of A-Z a-z 0-9 . _ -", "bad node name %q", clip(a.Name, 80))
	case !validPeerID(a.PeerID):
		return reject(ReasonBadCommand, "give the peer ID that the node tells", "bad peer ID of node %s", a.Name)
	case !fits(maxSPIFFEID, a.By, a.SPIFFEID) || !printable(a.By) || !printable(a.SPIFFEID):
		return reject(ReasonBadCommand, "", "bad SPIFFE ID of who admits node %s", a.Name)
	}
	return nil
}

// checkAdmitted holds that admissions since old are in bounds, one for a name, and none is of a banned key.
func (s *State) checkAdmitted(old *State) error {
	if s.Admit != "" && s.Admit != AdmitOperator || s.Admit == "" && len(s.Admitted) > 0 || len(s.Admitted) > MaxAdmitted {
		return errors.New("an unknown policy of admission, admissions without one, or too many")
	}
	names := map[string]bool{}
	for id, a := range s.Admitted {
		if a == nil || a.PeerID != id || names[a.Name] || old.Admitted[id] != a && a.check() != nil || s.Bans[id] != nil {
			return fmt.Errorf("bad admission under %q", clip(id, 80))
		}
		names[a.Name] = true
	}
	return nil
}
