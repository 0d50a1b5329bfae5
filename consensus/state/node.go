package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

// Node is one registered member of the swarm. Its name belongs to its node key until it is forgotten.
type Node struct {
	Name     string `json:"name"`
	Role     string `json:"role"`
	SPIFFEID string `json:"spiffe_id"`
	PeerID   string `json:"peer_id"` // libp2p peer ID of the node key
	Host     string `json:"host"`    // advertised address or host name
	P2PPort  uint16 `json:"p2p_port,omitempty"`
	APIPort  uint16 `json:"api_port,omitempty"`
	FSPort   uint16 `json:"fs_port,omitempty"`
	// APIService is HOST:PORT under which others than the SN itself reach its API, through a proxy; empty: Host and APIPort.
	APIService string `json:"api_service,omitempty"`
	Runtime    string `json:"runtime,omitempty"` // how an SL runs its program: "process" or "docker"
	Version    string `json:"version,omitempty"` // that it says it runs; empty: it registered before versions were told
	Sentinel   bool   `json:"sentinel,omitempty"`

	// TokenHashes are hex SHA-256 of the newest registration tokens, newest first. Two are kept, so that registering
	// again through another SN does not break a call in flight.
	TokenHashes []string `json:"token_hashes,omitempty"`
	Live        bool     `json:"live,omitempty"`
	LiveSinceMS int64    `json:"live_since_ms,omitempty"` // when Live last changed
	// LeftReason is not empty once the node has left, until it registers again: it is not live, and that is no fault.
	LeftReason string `json:"left_reason,omitempty"`
	// Recorded is the number of the ledger's record of this registration; 0: there is none.
	Recorded uint64 `json:"recorded,omitempty"`
	// Proof is what the node's newest SVID has signed, for other nodes to check by themselves; nil: it has shown none.
	Proof *Proof `json:"proof,omitempty"`
	// Offer is what a SWOP takes tasks for; nil: it takes none. It is never changed, only replaced.
	Offer *task.Offer `json:"offer,omitempty"`
}

// validHostPort reports whether a text has the form HOST:PORT. Whether the host can be one, who dials it finds out.
func validHostPort(s string) bool {
	i := strings.LastIndexByte(s, ':')
	if i < 1 || strings.ContainsAny(s[:i], "/@?#") {
		return false
	}
	port := s[i+1:]
	return port != "" && len(port) <= 5 && strings.Trim(port, "0123456789") == "" && port[0] != '0'
}

// Proof shows that a node's name and key belong to its SPIFFE ID. It is never changed, only replaced.
type Proof struct {
	Chain     [][]byte `json:"chain"`     // the SVID's certificates, DER, leaf first
	Signature []byte   `json:"signature"` // of the SVID's key over identity.OwnershipMessage
	Digest    string   `json:"digest"`    // hex SHA-256 of the above
	// Address is the SVID key's signature over identity.AddressMessage, of a SWOP; empty: it has signed none.
	Address []byte `json:"address,omitempty"`
}

// proofOf returns the proof that a registration carries; nil: none.
func proofOf(c RegisterNode) *Proof {
	if !c.KeepProof || len(c.Signature) == 0 {
		return nil
	}
	h := sha256.New()
	for _, part := range append(slices.Clone(c.Chain), c.Signature) {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) //nolint:gosec // bounded; a hash never returns an error
		_, _ = h.Write(part)
	}
	return &Proof{Chain: c.Chain, Signature: c.Signature, Digest: hex.EncodeToString(h.Sum(nil)), Address: c.Address}
}

// HasToken reports whether hash (hex SHA-256) is one of the node's valid token hashes. Tokens are 256 random bits and only
// their hashes are compared, so the comparison's time tells nothing.
func (n *Node) HasToken(hash string) bool { return hash != "" && slices.Contains(n.TokenHashes, hash) }

// RegisterNode adds a node or renews its registration. Node's TokenHashes, Live, LiveSinceMS, LeftReason, Recorded and Proof
// are ignored: a node that registers is alive. Sessions of the node stay as they are.
type RegisterNode struct {
	Node      Node   `json:"node"`
	TokenHash string `json:"token_hash"` // hex SHA-256
	AtMS      int64  `json:"at_ms"`
	// Signature of the SVID's key over identity.OwnershipMessage, and the SVID's certificates, DER, leaf first, for the
	// ledger; the proposer has checked them. Either both or none.
	Signature []byte   `json:"svid_signature,omitempty"`
	Chain     [][]byte `json:"svid_chain,omitempty"`
	// KeepProof has both kept as the node's Proof. Logs of before have it not, and read as they did.
	KeepProof bool `json:"keep_proof,omitempty"`
	// Address is a SWOP's signature of its address, for the Proof; the proposer has checked it.
	Address []byte `json:"address_signature,omitempty"`
}

// Type implements Command.
func (RegisterNode) Type() string { return "register_node" }

func (c RegisterNode) apply(s *State) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	if err := s.CheckBan(c.Node.PeerID); err != nil {
		return Result{}, err
	}
	old := s.Nodes[c.Node.Name]
	if old != nil && old.PeerID != c.Node.PeerID {
		return Result{}, reject(ReasonNameTaken, "choose another --name, or, if that node or its disk is gone for good: swarmctl forget node "+c.Node.Name,
			"the name %s belongs to node key %s", old.Name, old.PeerID)
	}
	if old != nil && old.Role != c.Node.Role {
		return Result{}, reject(ReasonRoleChanged, "choose another --name, or: swarmctl forget node "+c.Node.Name,
			"node %s is registered as %s, not %s", old.Name, old.Role, c.Node.Role)
	}
	if old != nil && !c.mayRenew(old) {
		return Result{}, reject(ReasonNameTaken, "register with the SVID of before, or: swarmctl forget node "+c.Node.Name,
			"the name %s belongs to SPIFFE ID %s, not to %s", old.Name, old.SPIFFEID, clip(c.Node.SPIFFEID, maxShort))
	}
	if other := s.holder(c.Node.PeerID, c.Node.Name); other != "" {
		return Result{}, reject(ReasonKeyTaken, "give each node a state directory of its own, or: swarmctl forget node "+other,
			"the node key of %s is registered as node %s already", c.Node.Name, other)
	}
	if c.Node.Role == naming.RoleSN {
		if err := s.CheckAdmission(c.Node.Name, c.Node.PeerID); err != nil {
			return Result{}, err
		}
		if err := checkInvited(s.Admitted[c.Node.PeerID], c.Node); err != nil {
			return Result{}, err
		}
	}
	if old == nil && len(s.Nodes) >= maxNodes {
		return Result{}, reject(ReasonBadCommand, "forget nodes that are gone", "the swarm has %d nodes already", maxNodes)
	}
	if id := c.Node.SPIFFEID; id != "" && c.Node.Role != naming.RoleSN && (old == nil || old.SPIFFEID != id) && s.ofID(id) >= MaxNodesOfID {
		return Result{}, reject(ReasonQuota, "forget nodes that are gone, or give nodes entries of their own", "%d nodes are registered with SPIFFE ID %s already", MaxNodesOfID, clip(id, maxShort))
	}
	n := c.Node
	n.TokenHashes, n.Live, n.LiveSinceMS, n.LeftReason = []string{c.TokenHash}, true, c.AtMS, ""
	n.Recorded, n.Proof = 0, proofOf(c)
	if old != nil {
		if old.SPIFFEID == n.SPIFFEID {
			n.Recorded = old.Recorded // name, key and role are the same too
		}
		for _, h := range old.TokenHashes {
			if h != c.TokenHash && len(n.TokenHashes) < maxTokens {
				n.TokenHashes = append(n.TokenHashes, h)
			}
		}
		if old.Live {
			n.LiveSinceMS = old.LiveSinceMS
		}
	}
	s.setNode(&n)
	return Result{Changed: true}, nil
}

func (c RegisterNode) records(_, next *State) (int64, []ledger.Body) {
	n := next.Nodes[c.Node.Name]
	if n.Recorded != 0 || len(c.Signature) == 0 {
		return c.AtMS, nil
	}
	return c.AtMS, []ledger.Body{ledger.Registration{
		Node: n.Name, Role: n.Role, SPIFFEID: n.SPIFFEID, PeerID: n.PeerID, Signature: c.Signature, Chain: c.Chain,
	}}
}

// mayRenew reports whether the registration's SPIFFE ID may follow the old one: it is the same, or a node of a shared ID
// has got one of its own. Never the other way: who holds a shared SVID and a stolen key is not the node.
func (c RegisterNode) mayRenew(old *Node) bool {
	return old.SPIFFEID == "" || c.Node.SPIFFEID == old.SPIFFEID || c.Node.SPIFFEID == old.SPIFFEID+"/"+old.Name
}

// Bears reports whether an SVID of this SPIFFE ID may show together with the node's key: it is the one that the node
// registered with, or one of the node's own that it has not registered yet.
func (n *Node) Bears(spiffeID string) bool {
	return RegisterNode{Node: Node{SPIFFEID: spiffeID}}.mayRenew(n)
}

// NodeOfKey returns the node of a peer ID, or nil.
func (s *State) NodeOfKey(peerID string) *Node { return s.Nodes[s.holder(peerID, "")] }

// holder returns the name of the node that has the peer ID, "" if there is none but the one named but. Streams prove a
// peer ID only, so it must lead to one node.
func (s *State) holder(peerID, but string) string {
	for name, n := range s.Nodes {
		if n.PeerID == peerID && name != but {
			return name
		}
	}
	return ""
}

func (c RegisterNode) check() error {
	n := c.Node
	switch {
	case !naming.ValidNode(n.Name):
		return reject(ReasonBadCommand, "use 1 to 63 of A-Z a-z 0-9 . _ -", "bad node name %q", clip(n.Name, 80))
	case !naming.RoleOf(n.Role).Node:
		return reject(ReasonBadCommand, "", "bad role %q of node %s", clip(n.Role, 80), n.Name)
	case !validPeerID(n.PeerID):
		return reject(ReasonBadCommand, "", "bad peer ID of node %s", n.Name)
	case !fitsRole(n.SPIFFEID, n.Role):
		return reject(ReasonBadCommand, "register in the role that the SPIFFE ID names", "node %s is no %s by its SPIFFE ID %s", n.Name, n.Role, clip(n.SPIFFEID, maxShort))
	case !fits(maxSPIFFEID, n.SPIFFEID) || !fits(maxShort, n.Host, n.Runtime, n.APIService, n.Version):
		return reject(ReasonBadCommand, "", "too long a field in the registration of node %s", n.Name)
	case !printable(n.SPIFFEID) || !printable(n.Host) || !printable(n.Runtime) || !printable(n.APIService) || !oneLine(n.Version):
		return reject(ReasonBadCommand, "use an address or host name of letters, digits, dots, colons and dashes", "blanks or control characters in the registration of node %s", n.Name)
	case n.APIService != "" && (n.Role != naming.RoleSN || !validHostPort(n.APIService)):
		return reject(ReasonBadCommand, "use HOST:PORT of an SN's API", "bad API service %s of node %s", clip(n.APIService, 80), n.Name)
	case n.Offer != nil && (n.Role != naming.RoleSWOP || !n.Offer.Valid()):
		return reject(ReasonBadCommand, "name a taskrunner, and start at least one SL", "bad offer of node %s, or it is no SWOP", n.Name)
	case !validHex(c.TokenHash, 64):
		return reject(ReasonBadCommand, "", "bad token hash of node %s", n.Name)
	}
	return c.checkProof()
}

// fitsRole reports whether a SPIFFE ID names no other role than this one. What the network proves is not seen here: who
// proposes for others could else make an SN of what they registered as an SL, or the other way.
func fitsRole(spiffeID, role string) bool {
	_, path, _ := strings.Cut(strings.TrimPrefix(spiffeID, "spiffe://"), "/")
	named, found := strings.CutPrefix(path, "swarm/")
	if !found {
		return true
	}
	named, _, _ = strings.Cut(named, "/")
	return named == role
}

// printable reports whether s has visible ASCII characters only: these fields reach the terminals of others.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// ForgetNode frees a dead node's name. Its sessions end with the reason "lost". An SN's admission goes, also if it has not joined, and so does
// an invitation of that name that nobody has claimed, whether a node has the name or none.
type ForgetNode struct {
	Node  string        `json:"node"`
	AtMS  int64         `json:"at_ms"`
	Order *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (ForgetNode) Type() string { return "forget_node" }

func (c ForgetNode) apply(s *State) (Result, error) {
	n := s.Nodes[c.Node]
	if n != nil && n.Live {
		return Result{}, reject(ReasonNodeLive, "stop the node first; one that was killed is found dead within seconds", "node %s is alive", c.Node)
	}
	var open bool
	s.Invitations, open = s.Invitations.takenBack(c.Node)
	if n == nil {
		a := s.admittedAs(c.Node)
		if a != nil {
			s.dismiss(a.PeerID)
		}
		return Result{Changed: a != nil || open}, nil
	}
	if err := s.endSessionsOf(c.Node, EndLost); err != nil {
		return Result{}, err
	}
	s.forgetNode(c.Node)
	s.dismiss(n.PeerID)
	return Result{Changed: true}, nil
}

func (c ForgetNode) records(old, _ *State) (int64, []ledger.Body) {
	f := ledger.Forget{Node: c.Node, Order: c.Order}
	if n := old.Nodes[c.Node]; n != nil {
		f.PeerID = n.PeerID
	} else if a := old.admittedAs(c.Node); a != nil {
		f.PeerID = a.PeerID
	}
	if i := old.Invitations.unclaimed(c.Node); i != nil {
		f.Invitation = i.Number
	}
	return c.AtMS, []ledger.Body{f}
}

// SetLive records that a node was found dead or alive. One that left is neither: it stays as it is until it registers.
type SetLive struct {
	Node string `json:"node"`
	Live bool   `json:"live"`
	AtMS int64  `json:"at_ms"`
}

// Type implements Command.
func (SetLive) Type() string { return "set_live" }

func (c SetLive) apply(s *State) (Result, error) {
	old := s.Nodes[c.Node]
	if old == nil {
		return Result{}, reject(ReasonNodeUnknown, "", "no node %q", clip(c.Node, 80))
	}
	if err := s.CheckBan(old.PeerID); err != nil && c.Live {
		return Result{}, err
	}
	if old.Live == c.Live || old.Left() {
		return Result{}, nil
	}
	n := *old
	n.Live, n.LiveSinceMS = c.Live, c.AtMS
	s.setNode(&n)
	return Result{Changed: true}, nil
}

// sortedSessions returns sessions in the order in which they were opened.
func sortedSessions(m map[string]*Session) []*Session {
	return slices.SortedFunc(maps.Values(m), func(a, b *Session) int {
		if a.Order < b.Order {
			return -1
		}
		return 1
	})
}
