package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/identity/naming"
)

// Bounds of invitations.
const (
	MaxInvitations = 64
	// MaxInvitationMS is how long one lives at most: 31 days.
	MaxInvitationMS = 31 * 24 * 3600 * 1000
	// KeepInvitationMS is how long one is kept behind its end, so that who comes too late is told why: 7 days.
	KeepInvitationMS = 7 * 24 * 3600 * 1000
)

// Invitation lets the first node key that claims it join as the SN of one name. It is never changed, only replaced.
type Invitation struct {
	Number    uint64 `json:"number"` // counts the swarm's from 1
	Node      string `json:"node"`
	SPIFFEID  string `json:"spiffe_id"`  // that the SN must bear
	Key       []byte `json:"key"`        // public; the private one follows from the secret that the invited host has
	ExpiresMS int64  `json:"expires_ms"` // no claim is good from then on; Unix milliseconds
	By        string `json:"by"`         // SPIFFE ID of who invited
	AtMS      int64  `json:"at_ms"`
	ClaimedBy string `json:"claimed_by,omitempty"` // libp2p peer ID of the node key; empty: nobody has claimed it
}

// openInvitation returns the invitation for a name that nobody has claimed, or nil. It may have expired.
func (s *State) openInvitation(name string) *Invitation {
	if i := s.Invitations[name]; i != nil && i.ClaimedBy == "" {
		return i
	}
	return nil
}

// OpenInvitations returns the invitations that can be claimed at a time, by name.
func (s *State) OpenInvitations(atMS int64) []*Invitation {
	var open []*Invitation
	for _, name := range slices.Sorted(maps.Keys(s.Invitations)) {
		if i := s.openInvitation(name); i != nil && atMS < i.ExpiresMS {
			open = append(open, i)
		}
	}
	return open
}

// InviteNode lets the node key that first claims the invitation join as the SN of a name, in a swarm whose operators admit SNs. It takes
// the place of an invitation of before for that name. Only the public key of the invitation is in it.
type InviteNode struct {
	Node      string        `json:"node"`
	SPIFFEID  string        `json:"spiffe_id"`
	Key       []byte        `json:"key"`
	ExpiresMS int64         `json:"expires_ms"`
	By        string        `json:"by"` // SPIFFE ID of who invites
	AtMS      int64         `json:"at_ms"`
	Order     *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (InviteNode) Type() string { return "invite_node" }

// OrderOf implements Ordered.
func (c InviteNode) OrderOf() *ledger.Order { return c.Order }

func (c InviteNode) apply(s *State) (Result, error) {
	i := &Invitation{Number: s.Invited + 1, Node: c.Node, SPIFFEID: c.SPIFFEID, Key: c.Key, ExpiresMS: c.ExpiresMS, By: c.By, AtMS: c.AtMS}
	if err := i.check(); err != nil {
		return Result{}, err
	}
	if err := s.checkAdmitting(); err != nil {
		return Result{}, err
	}
	if n := s.Nodes[c.Node]; n != nil && n.Role != naming.RoleSN {
		return Result{}, reject(ReasonRoleChanged, "choose another name, or: swarmctl forget node "+n.Name, "node %s is registered as %s, not as an SN", n.Name, n.Role)
	}
	if same := s.invitationOf(c.Key); same != nil {
		if same.Node == c.Node && same.SPIFFEID == c.SPIFFEID && same.ExpiresMS == c.ExpiresMS {
			return Result{}, nil // asked for again
		}
		return Result{}, reject(ReasonBadCommand, "make another secret", "the invitation of SN %s, which is on other terms, has this key already", same.Node)
	}
	delete(s.Invitations, c.Node)
	if s.sweepInvitations(c.AtMS); len(s.Invitations) >= MaxInvitations {
		return Result{}, reject(ReasonBadCommand, "take those back that nobody will use: swarmctl forget node NAME", "%d invitations of SNs are open already, more can't be", MaxInvitations)
	}
	if s.Invitations == nil {
		s.Invitations = map[string]*Invitation{}
	}
	s.Invited = i.Number
	s.Invitations[i.Node] = i
	return Result{Changed: true}, nil
}

func (c InviteNode) records(_, next *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{ledger.Invitation{
		Number: next.Invited, Node: c.Node, SPIFFEID: c.SPIFFEID, Key: c.Key, ExpiresMS: c.ExpiresMS, By: c.By, Order: c.Order,
	}}
}

// invitationOf returns the invitation with a public key, or nil.
func (s *State) invitationOf(key []byte) *Invitation {
	for _, i := range s.Invitations {
		if bytes.Equal(i.Key, key) {
			return i
		}
	}
	return nil
}

// sweepInvitations drops what can't be claimed any more: what ended long ago, and the oldest of the rest if there would be no room.
func (s *State) sweepInvitations(atMS int64) {
	var useless []*Invitation
	for name, i := range s.Invitations {
		switch {
		case i.ExpiresMS+KeepInvitationMS <= atMS:
			delete(s.Invitations, name)
		case i.ExpiresMS <= atMS || i.ClaimedBy != "":
			useless = append(useless, i)
		}
	}
	slices.SortFunc(useless, func(a, b *Invitation) int { return cmp.Compare(a.Number, b.Number) })
	for _, i := range useless[:min(len(useless), max(0, len(s.Invitations)-MaxInvitations+1))] {
		delete(s.Invitations, i.Node)
	}
}

// ClaimInvitation admits the node key that shows an open invitation for its name and SPIFFE ID. The first one that does gets it. The key
// that has it already may show it again as long as it is admitted. Whether the SPIFFE ID and the node key are the SN's the raft leader has
// found out before.
type ClaimInvitation struct {
	Node      string `json:"node"`
	PeerID    string `json:"peer_id"`
	SPIFFEID  string `json:"spiffe_id"`
	Key       []byte `json:"key"`       // public, of the invitation
	Signature []byte `json:"signature"` // as claim.Sign makes it
	AtMS      int64  `json:"at_ms"`
}

// Type implements Command.
func (ClaimInvitation) Type() string { return "claim_invitation" }

func (c ClaimInvitation) apply(s *State) (Result, error) {
	a := &Admission{Name: c.Node, PeerID: c.PeerID, AtMS: c.AtMS}
	if err := a.check(); err != nil {
		return Result{}, err
	}
	if len(c.Key) != claim.KeySize || len(c.Signature) != claim.SignatureSize || !fits(maxSPIFFEID, c.SPIFFEID) {
		return Result{}, reject(ReasonBadCommand, "", "bad claim of node %s", c.Node)
	}
	i, err := s.claimable(c)
	if err != nil {
		return Result{}, err
	}
	if i.ClaimedBy != "" {
		return Result{}, nil
	}
	a.By, a.Invitation = i.By, i.Number
	if err := s.admitWithin(a); err != nil {
		return Result{}, err
	}
	claimed := *i
	claimed.ClaimedBy = c.PeerID
	s.Invitations[c.Node] = &claimed
	return Result{Changed: true}, nil
}

// claimable returns the invitation that a node key may claim, or has claimed and is still admitted by.
func (s *State) claimable(c ClaimInvitation) (*Invitation, error) {
	i := s.invitationOf(c.Key)
	again := "ask an operator of the swarm for another: swarmctl invite sn/" + c.Node + "; or to admit this SN: swarmctl admit node " + c.Node + " --peer-id " + c.PeerID
	switch {
	case i == nil:
		return nil, reject(ReasonInvitationUnknown, again, "the swarm knows no such invitation of SN %s: it was taken back, another was made after it, or it ended long ago", c.Node)
	case i.Node != c.Node:
		return nil, reject(ReasonInvitationOther, again, "the invitation is for SN %s, and not for SN %s", i.Node, c.Node)
	case i.SPIFFEID != c.SPIFFEID:
		return nil, reject(ReasonInvitationOther, again, "the invitation of SN %s is for SPIFFE ID %s, and not for %s", c.Node, i.SPIFFEID, clip(c.SPIFFEID, maxShort))
	case !claim.Verify(i.Key, s.SwarmID, c.Node, c.PeerID, c.Signature):
		return nil, reject(ReasonInvitationUnknown, again, "the claim does not fit the invitation of SN %s: its secret, or what was signed with that, was altered", c.Node)
	case i.ClaimedBy == c.PeerID && s.CheckAdmission(c.Node, c.PeerID) != nil:
		return nil, reject(ReasonInvitationUsed, again, "the invitation of SN %s was used by this node, and an operator has taken the admission back since", c.Node)
	case i.ClaimedBy == c.PeerID:
		return i, nil
	case i.ClaimedBy != "":
		return nil, reject(ReasonInvitationUsed, "if that node is not yours somebody else has the line: swarmctl ban node "+i.ClaimedBy+"; "+again,
			"the invitation of SN %s was used by another node, with key %s", c.Node, i.ClaimedBy)
	case c.AtMS >= i.ExpiresMS:
		return nil, reject(ReasonInvitationExpired, again, "the invitation of SN %s has expired", c.Node)
	}
	return i, s.checkCandidate(c.Node, c.PeerID)
}

func (c ClaimInvitation) records(_, next *State) (int64, []ledger.Body) {
	a := next.Admitted[c.PeerID]
	return c.AtMS, []ledger.Body{ledger.Admission{Node: c.Node, PeerID: c.PeerID, By: a.By, Invitation: a.Invitation, Claim: c.Signature}}
}

func (i *Invitation) check() error {
	switch {
	case !naming.ValidNode(i.Node):
		return reject(ReasonBadCommand, "use 1 to 63 of A-Z a-z 0-9 . _ -", "bad node name %q", clip(i.Node, 80))
	case i.SPIFFEID == "" || !fits(maxSPIFFEID, i.SPIFFEID) || !printable(i.SPIFFEID) || !fitsRole(i.SPIFFEID, naming.RoleSN):
		return reject(ReasonBadCommand, "give the SPIFFE ID of an SN", "bad SPIFFE ID %s of SN %s that is invited", clip(i.SPIFFEID, maxShort), i.Node)
	case len(i.Key) != claim.KeySize:
		return reject(ReasonBadCommand, "", "the key of an invitation has %d bytes, and %d here", claim.KeySize, len(i.Key))
	case i.AtMS < 0 || i.ExpiresMS <= i.AtMS || i.ExpiresMS-i.AtMS > MaxInvitationMS:
		return reject(ReasonBadCommand, "give a time from 1m to 720h, and check the clocks of this machine and of the SNs", "the invitation of SN %s does not end within 31 days from now", i.Node)
	case !fits(maxSPIFFEID, i.By) || !printable(i.By):
		return reject(ReasonBadCommand, "", "bad SPIFFE ID of who invites SN %s", i.Node)
	}
	return nil
}

// checkInvitations holds that invitations are in bounds, that none has the number or the key of another, and that a swarm that asks nobody
// has none.
func (s *State) checkInvitations() error {
	if s.Admit == "" && s.Invited > 0 || len(s.Invitations) > MaxInvitations {
		return errors.New("invitations of SNs that nobody admits, or too many")
	}
	numbers, keys := map[uint64]bool{}, map[string]bool{}
	for name, i := range s.Invitations {
		if i == nil || i.Node != name || i.Number < 1 || i.Number > s.Invited || numbers[i.Number] || keys[string(i.Key)] || i.check() != nil || i.ClaimedBy != "" && !validPeerID(i.ClaimedBy) {
			return fmt.Errorf("bad invitation under %q", clip(name, 80))
		}
		numbers[i.Number], keys[string(i.Key)] = true, true
	}
	return nil
}
