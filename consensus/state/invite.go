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

// Invitations are those of a swarm's SNs. They are never changed, only replaced. nil: there never was one.
type Invitations struct {
	Made uint64                 `json:"made"`           // how many
	Kept map[string]*Invitation `json:"kept,omitempty"` // by the SN's name: those not claimed, and of late those that were; at most MaxInvitations
}

// Of returns the newest invitation for a name as far as it is kept, or nil.
func (x *Invitations) Of(name string) *Invitation {
	if x == nil {
		return nil
	}
	return x.Kept[name]
}

// Open returns the invitations that can be claimed at a time, by name.
func (x *Invitations) Open(atMS int64) []*Invitation {
	if x == nil {
		return nil
	}
	var open []*Invitation
	for _, name := range slices.Sorted(maps.Keys(x.Kept)) {
		if i := x.unclaimed(name); i != nil && atMS < i.ExpiresMS {
			open = append(open, i)
		}
	}
	return open
}

// unclaimed returns the invitation for a name that nobody has claimed, or nil. It may have expired.
func (x *Invitations) unclaimed(name string) *Invitation {
	if i := x.Of(name); i != nil && i.ClaimedBy == "" {
		return i
	}
	return nil
}

// takenBack returns the invitations without one for a name that nobody has claimed, and whether there was one.
func (x *Invitations) takenBack(name string) (rest *Invitations, open bool) {
	if x.unclaimed(name) == nil {
		return x, false
	}
	return x.without(name), true
}

// withKey returns the invitation with a public key, or nil.
func (x *Invitations) withKey(key []byte) *Invitation {
	if x == nil {
		return nil
	}
	for _, i := range x.Kept {
		if bytes.Equal(i.Key, key) {
			return i
		}
	}
	return nil
}

// with returns them with another one, which takes the place of that for its name.
func (x *Invitations) with(i *Invitation) *Invitations {
	y := x.without(i.Node)
	y.Kept[i.Node] = i
	return y
}

// without returns them without that for a name.
func (x *Invitations) without(name string) *Invitations {
	y := &Invitations{Kept: map[string]*Invitation{}}
	if x != nil {
		y.Made = x.Made
		maps.Copy(y.Kept, x.Kept)
	}
	delete(y.Kept, name)
	return y
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
	i := &Invitation{Node: c.Node, SPIFFEID: c.SPIFFEID, Key: c.Key, ExpiresMS: c.ExpiresMS, By: c.By, AtMS: c.AtMS}
	if err := i.check(); err != nil {
		return Result{}, err
	}
	if err := checkAdmitting(s); err != nil {
		return Result{}, err
	}
	if n := s.Nodes[c.Node]; n != nil && n.Role != naming.RoleSN {
		return Result{}, reject(ReasonRoleChanged, "choose another name, or: swarmctl forget node "+n.Name, "node %s is registered as %s, not as an SN", n.Name, n.Role)
	}
	if same := s.Invitations.withKey(c.Key); same != nil {
		if same.Node == c.Node && same.SPIFFEID == c.SPIFFEID && same.ExpiresMS == c.ExpiresMS {
			return Result{}, nil // asked for again
		}
		return Result{}, reject(ReasonBadCommand, "make another secret", "the invitation of SN %s, which is on other terms, has this key already", same.Node)
	}
	next := s.Invitations.without(c.Node)
	if next.sweep(c.AtMS); len(next.Kept) >= MaxInvitations {
		return Result{}, reject(ReasonBadCommand, "take those back that nobody will use: swarmctl forget node NAME", "%d invitations of SNs are open already, more can't be", MaxInvitations)
	}
	next.Made++
	i.Number = next.Made
	next.Kept[i.Node] = i
	s.Invitations = next
	return Result{Changed: true}, nil
}

func (c InviteNode) records(_, next *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{ledger.Invitation{
		Number: next.Invitations.Made, Node: c.Node, SPIFFEID: c.SPIFFEID, Key: c.Key, ExpiresMS: c.ExpiresMS, By: c.By, Order: c.Order,
	}}
}

// sweep drops what can't be claimed any more: what ended long ago, and the oldest of the rest if there would be no room. It is for a copy that
// is no state's yet.
func (x *Invitations) sweep(atMS int64) {
	var useless []*Invitation
	for name, i := range x.Kept {
		switch {
		case i.ExpiresMS+KeepInvitationMS <= atMS:
			delete(x.Kept, name)
		case i.ExpiresMS <= atMS || i.ClaimedBy != "":
			useless = append(useless, i)
		}
	}
	slices.SortFunc(useless, func(a, b *Invitation) int { return cmp.Compare(a.Number, b.Number) })
	for _, i := range useless[:min(len(useless), max(0, len(x.Kept)-MaxInvitations+1))] {
		delete(x.Kept, i.Node)
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
	i, err := c.claimable(s)
	if err != nil {
		return Result{}, err
	}
	if i.ClaimedBy != "" {
		return Result{}, nil
	}
	a.By, a.Invitation, a.SPIFFEID = i.By, i.Number, i.SPIFFEID
	if err := admitWithin(s, a); err != nil {
		return Result{}, err
	}
	claimed := *i
	claimed.ClaimedBy = c.PeerID
	s.Invitations = s.Invitations.with(&claimed)
	return Result{Changed: true}, nil
}

// claimable returns the invitation that a node key may claim, or has claimed and is still admitted by.
func (c ClaimInvitation) claimable(s *State) (*Invitation, error) {
	i := s.Invitations.withKey(c.Key)
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
	return i, checkCandidate(s, c.Node, c.PeerID)
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

// check holds that invitations are in bounds, that none has the number or the key of another, and that a swarm that asks nobody
// has none, unless they are old's.
func (x *Invitations) check(admit string, old *Invitations) error {
	if x == old {
		return nil
	}
	if x == nil {
		return errors.New("the count of invitations is lost")
	}
	if admit == "" || x.Made == 0 || len(x.Kept) > MaxInvitations {
		return errors.New("invitations of SNs that nobody admits, or too many")
	}
	numbers, keys := map[uint64]bool{}, map[string]bool{}
	for name, i := range x.Kept {
		if i == nil || i.Node != name || i.Number < 1 || i.Number > x.Made || numbers[i.Number] || keys[string(i.Key)] || i.check() != nil || i.ClaimedBy != "" && !validPeerID(i.ClaimedBy) {
			return fmt.Errorf("bad invitation under %q", clip(name, 80))
		}
		numbers[i.Number], keys[string(i.Key)] = true, true
	}
	return nil
}
