package node_test

import (
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/node"
)

// TestMayFetch holds that operators get models only where the rules let them out, and nodes only of their own contract.
func TestMayFetch(t *testing.T) {
	view := func(export bool) *swarmv1.ContractView {
		return &swarmv1.ContractView{Name: "c", Rules: &swarmv1.Rules{Export: export}, Sessions: []*swarmv1.Session{
			{Node: "sl-0", PeerId: "peer-0", SpiffeId: "spiffe://x/swarm/sl", State: "open"},
		}}
	}
	for _, tt := range []struct {
		name string
		view *swarmv1.ContractView
		role identity.Role
		peer string
		ok   bool
	}{
		{"an operator", view(true), identity.RoleSWCI, "anybody", true},
		{"an operator whom no rule allows it", view(false), identity.RoleSWCI, "anybody", false},
		{"an operator, no rules", &swarmv1.ContractView{Name: "c"}, identity.RoleSWCI, "anybody", false},
		{"an operator, of another contract", &swarmv1.ContractView{Name: "other", Rules: &swarmv1.Rules{Export: true}}, identity.RoleSWCI, "anybody", false},
		{"an operator, no session here", nil, identity.RoleSWCI, "anybody", false},
		{"a participant", view(false), identity.RoleSL, "peer-0", true},
		{"another SL", view(true), identity.RoleSL, "peer-1", false},
	} {
		if err := node.MayFetch(tt.view, "c", tt.role, tt.peer, "spiffe://x/swarm/sl"); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
