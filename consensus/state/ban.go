package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// MaxBans is how many node keys may be banned at a time: the list reaches every SL whenever it changes.
const MaxBans = 1024

// MaxBanReason bounds the words of who bans, in bytes.
const MaxBanReason = 256

// Ban shuts one node key out of the swarm. It outlives the node's registration.
type Ban struct {
	PeerID string `json:"peer_id"`          // libp2p peer ID of the node key
	Name   string `json:"name,omitempty"`   // of the node when it was banned; empty: the key was not registered
	Reason string `json:"reason,omitempty"` // the operator's words
	By     string `json:"by"`               // SPIFFE ID of who banned it
	AtMS   int64  `json:"at_ms"`
}

// Banned returns the ban of a node key, or nil.
func (s *State) Banned(peerID string) *Ban { return s.Bans[peerID] }

// CheckBan returns why a node key is shut out, as an *Error with ReasonBanned, or nil.
func (s *State) CheckBan(peerID string) error {
	b := s.Bans[peerID]
	if b == nil {
		return nil
	}
	return b.refusal()
}

// BannedPeers returns the peer IDs of all banned node keys, sorted.
func (s *State) BannedPeers() []string { return slices.Sorted(maps.Keys(s.Bans)) }

func (b *Ban) refusal() *Error {
	who := b.Name
	if who == "" {
		who = b.PeerID
	}
	why := ""
	if b.Reason != "" {
		why = ": " + b.Reason
	}
	return reject(ReasonBanned, "ask an operator of the swarm, who may lift it: swarmctl unban node "+who,
		"node key %s (%s) is banned%s", b.PeerID, who, why)
}

// BanNode shuts a node key out: its tokens are void, its sessions end with the reason "banned", it counts as dead, and
// nothing more is accepted of it until UnbanNode. An SN's admission does not come back with that. A key that is banned already keeps its first ban. The key need not be
// registered.
type BanNode struct {
	PeerID string        `json:"peer_id"`
	Reason string        `json:"reason,omitempty"` // at most MaxBanReason bytes of one line
	By     string        `json:"by"`               // SPIFFE ID of who bans
	AtMS   int64         `json:"at_ms"`
	Order  *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (BanNode) Type() string { return "ban_node" }

func (c BanNode) apply(s *State) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	if !fits(MaxBanReason, c.Reason) || !fits(maxSPIFFEID, c.By) || !fits(maxShort, c.PeerID) {
		return Result{}, reject(ReasonBadCommand, "use letters, digits and blanks", "the reason of a ban, or who bans, is too long as it is encoded")
	}
	if s.Bans[c.PeerID] != nil {
		return Result{}, nil
	}
	if len(s.Bans) >= MaxBans {
		return Result{}, reject(ReasonTooManyBans, "lift bans that are not needed any more: swarmctl unban node NAME",
			"%d node keys are banned already, more can't be", MaxBans)
	}
	name := s.holder(c.PeerID, "")
	if n := s.Nodes[name]; n != nil {
		if n.Role == naming.RoleSN && s.othersThanBanned(n) == 0 {
			return Result{}, reject(ReasonLastSN, "start another SN first", "node %s is the only SN of the swarm", name)
		}
		if err := s.shutOut(n, c.AtMS); err != nil {
			return Result{}, err
		}
	}
	s.dismiss(c.PeerID)
	if s.Bans == nil {
		s.Bans = map[string]*Ban{}
	}
	s.Bans[c.PeerID] = &Ban{PeerID: c.PeerID, Name: name, Reason: c.Reason, By: c.By, AtMS: c.AtMS}
	return Result{Changed: true}, nil
}

func (c BanNode) records(_, next *State) (int64, []ledger.Body) {
	b := next.Bans[c.PeerID]
	return c.AtMS, []ledger.Body{ledger.Ban{PeerID: b.PeerID, Node: b.Name, Reason: b.Reason, By: b.By, Order: c.Order}}
}

func (c BanNode) check() error {
	switch {
	case len(c.Reason) > MaxBanReason || !oneLine(c.Reason):
		return reject(ReasonBadCommand, "give one line of plain text", "the reason of a ban is %d bytes, at most %d, of one line", len(c.Reason), MaxBanReason)
	case len(c.By) > maxSPIFFEID || !printable(c.By):
		return reject(ReasonBadCommand, "", "bad SPIFFE ID of who bans")
	}
	return checkPeerID(c.PeerID)
}

func checkPeerID(id string) error {
	if id == "" || len(id) > maxShort || !printable(id) {
		return reject(ReasonBadCommand, "", "bad peer ID %q", clip(id, 80))
	}
	return nil
}

// oneLine reports whether s has no control characters.
func oneLine(s string) bool {
	for _, r := range s {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}

// othersThanBanned counts the SNs besides n whose keys are not banned.
func (s *State) othersThanBanned(n *Node) int {
	count := 0
	for _, o := range s.Nodes {
		if o.Role == naming.RoleSN && o.Name != n.Name && s.Bans[o.PeerID] == nil {
			count++
		}
	}
	return count
}

// shutOut takes from a node what it may do, and ends its sessions.
func (s *State) shutOut(old *Node, atMS int64) error {
	n := *old
	n.TokenHashes = nil
	if n.Live {
		n.Live, n.LiveSinceMS = false, atMS
	}
	s.setNode(&n)
	return s.endSessionsOf(n.Name, EndBanned)
}

// endSessionsOf ends the sessions of a node in all contracts.
func (s *State) endSessionsOf(node, reason string) error {
	for _, name := range s.ContractNames() {
		held := s.Contracts[name].SessionOf(node)
		if held == nil {
			continue
		}
		contract, err := s.contract(name)
		if err != nil {
			return err
		}
		contract.end(held.ID, reason, 0)
		contract.settle()
	}
	return nil
}

// UnbanNode lets a node key in again; its node registers anew. One that is not banned stays as it is.
type UnbanNode struct {
	PeerID string        `json:"peer_id"`
	AtMS   int64         `json:"at_ms"`
	Order  *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (UnbanNode) Type() string { return "unban_node" }

func (c UnbanNode) apply(s *State) (Result, error) {
	if err := checkPeerID(c.PeerID); err != nil {
		return Result{}, err
	}
	if s.Bans[c.PeerID] == nil {
		return Result{}, nil
	}
	delete(s.Bans, c.PeerID)
	return Result{Changed: true}, nil
}

func (c UnbanNode) records(_, _ *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{ledger.Unban{PeerID: c.PeerID, Order: c.Order}}
}

// checkBans holds that no key that is banned since old has a way in.
func (s *State) checkBans(old *State) error {
	if len(s.Bans) > MaxBans {
		return errors.New("too many bans")
	}
	for id, pair := range changes(old.Bans, s.Bans) {
		b := pair[1]
		if _, there := s.Bans[id]; !there {
			continue // lifted
		}
		if b == nil || b.PeerID != id || (BanNode{PeerID: id, Reason: b.Reason, By: b.By}).check() != nil {
			return fmt.Errorf("bad ban under %q", clip(id, 80))
		}
		if err := s.checkShutOut(s.NodeOfKey(id)); err != nil {
			return err
		}
	}
	return nil
}

// checkShutOut holds that a node whose key is banned has no way in; nil is none.
func (s *State) checkShutOut(n *Node) error {
	if n != nil && s.Bans[n.PeerID] != nil && (n.Live || len(n.TokenHashes) > 0 || s.sums.use[n.Name].Open > 0) {
		return fmt.Errorf("node %s is banned, and is alive, has a token or a session", n.Name)
	}
	return nil
}
