package state_test

import (
	"bytes"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// TestSignedAddresses: a SWOP's signature of its address is kept with its proof, bounded; no other node has one.
func TestSignedAddresses(t *testing.T) {
	for name, tt := range map[string]struct {
		role    string
		keep    bool
		address []byte
		ok      bool
	}{
		"a SWOP's":  {naming.RoleSWOP, true, []byte{7}, true},
		"none":      {naming.RoleSWOP, false, nil, true},
		"an SL's":   {naming.RoleSL, true, []byte{7}, false},
		"unkept":    {naming.RoleSWOP, false, []byte{7}, false},
		"too large": {naming.RoleSWOP, true, make([]byte, state.MaxSignature+1), false},
	} {
		c := state.RegisterNode{
			Node: state.Node{Name: "n", Role: tt.role, SPIFFEID: "spiffe://s/swarm/" + tt.role, PeerID: "peer-1", Host: "h"}, TokenHash: hexOf("b", 64), AtMS: 3,
			Signature: []byte{1}, Chain: [][]byte{{2}}, KeepProof: tt.keep, Address: tt.address,
		}
		s, _, err := state.New().Apply(c)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
		if !tt.ok || !tt.keep {
			continue
		}
		if n := s.Nodes["n"]; !bytes.Equal(n.Proof.Address, tt.address) {
			t.Errorf("%s: kept %+v", name, n.Proof)
		}
	}
}
