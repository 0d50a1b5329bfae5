package membership

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// TestJoinIsProvenByNodeKeyAndSVID: what an SN asks for must be signed as it stands, by both keys, over the leader's nonce.
func TestJoinIsProvenByNodeKeyAndSVID(t *testing.T) {
	ours, err := rpctest.NewAuthority("swarm.learning")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := rpctest.NewAuthority("swarm.learning") // the same name, another CA
	if err != nil {
		t.Fatal(err)
	}
	domains, err := ours.Domains()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *rpctest.Authority, path string) identity.Source {
		t.Helper()
		s, err := a.Issue(path, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	leader, joiner := issue(ours, "/swarm/sn/a"), issue(ours, "/swarm/sn/x")
	newKey := func() (crypto.PrivKey, string) {
		key, _, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		id, err := identity.PeerID(key)
		if err != nil {
			t.Fatal(err)
		}
		return key, id.String()
	}
	key, peerID := newKey()
	other, otherID := newKey()
	const swarm = "0123456789abcdef0123456789abcdef"
	request := func(source identity.Source, by crypto.PrivKey) consensus.JoinRequest {
		t.Helper()
		register, err := prove(source, swarm, state.RegisterNode{
			Node:      state.Node{Name: "x", Role: naming.RoleSN, PeerID: peerID, Host: "10.0.0.1", P2PPort: 30303},
			TokenHash: strings.Repeat("a", 64), AtMS: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := signJoin(source, by, consensus.JoinRequest{
			Name: "x", Address: consensus.FormatAddress(peerID, "10.0.0.1:30303"), SwarmID: swarm, Nonce: []byte("nonce"), Register: register,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	who, err := checkJoin(leader, domains, swarm, request(joiner, key))
	if err != nil || who.PeerID != peerID || who.Role != "sn" || who.NodeName != "x" || who.SPIFFEID != "spiffe://swarm.learning/swarm/sn/x" {
		t.Fatalf("an honest join: %+v, %v", who, err)
	}
	sealed := request(issue(ours, "/swarm/sn/y"), key)
	for name, change := range map[string]func(*consensus.JoinRequest){
		"another nonce":          func(r *consensus.JoinRequest) { r.Nonce = []byte("later") },
		"another swarm":          func(r *consensus.JoinRequest) { r.SwarmID = strings.Repeat("b", 32) },
		"another name":           func(r *consensus.JoinRequest) { r.Name = "y" },
		"another address":        func(r *consensus.JoinRequest) { r.Address = consensus.FormatAddress(peerID, "10.6.6.6:30303") },
		"another port":           func(r *consensus.JoinRequest) { r.Register.Node.P2PPort = 1 },
		"another node key":       func(r *consensus.JoinRequest) { r.Register.Node.PeerID = otherID },
		"another SPIFFE ID":      func(r *consensus.JoinRequest) { r.Register.Node.SPIFFEID = "spiffe://swarm.learning/swarm/sn/y" },
		"no chain":               func(r *consensus.JoinRequest) { r.Register.Chain = nil },
		"no ownership":           func(r *consensus.JoinRequest) { r.Register.Signature = nil },
		"no node signature":      func(r *consensus.JoinRequest) { r.NodeSignature = nil },
		"no SVID signature":      func(r *consensus.JoinRequest) { r.SVIDSignature = nil },
		"another SVID's":         func(r *consensus.JoinRequest) { r.SVIDSignature = sealed.SVIDSignature },
		"another key's":          func(r *consensus.JoinRequest) { *r = request(joiner, other) },
		"the role sl":            func(r *consensus.JoinRequest) { *r = request(issue(ours, "/swarm/sl/x"), key) },
		"an unknown authority's": func(r *consensus.JoinRequest) { *r = request(issue(theirs, "/swarm/sn/x"), key) },
	} {
		r := request(joiner, key)
		change(&r)
		if _, err := checkJoin(leader, domains, swarm, r); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}
