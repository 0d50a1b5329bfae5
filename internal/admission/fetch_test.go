package admission_test

import (
	"testing"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/round"
)

// TestMayFetch holds that operators get models only where the rules let them out, and nodes only of their own contract.
func TestMayFetch(t *testing.T) {
	view := func(export bool) *round.View {
		return &round.View{Name: "c", Rules: round.Rules{Export: export}, Sessions: []*round.Session{
			{Node: "sl-0", PeerID: "peer-0", SPIFFEID: "spiffe://x/swarm/sl", State: "open"},
		}}
	}
	for _, tt := range []struct {
		name string
		view *round.View
		role identity.Role
		peer string
		ok   bool
	}{
		{"an operator", view(true), identity.RoleSWCI, "anybody", true},
		{"an operator whom no rule allows it", view(false), identity.RoleSWCI, "anybody", false},
		{"an operator, no rules", &round.View{Name: "c"}, identity.RoleSWCI, "anybody", false},
		{"an operator, of another contract", &round.View{Name: "other", Rules: round.Rules{Export: true}}, identity.RoleSWCI, "anybody", false},
		{"an operator, no session here", &round.View{}, identity.RoleSWCI, "anybody", false},
		{"a participant", view(false), identity.RoleSL, "peer-0", true},
		{"another SL", view(true), identity.RoleSL, "peer-1", false},
	} {
		if err := admission.MayFetch(tt.view, "c", tt.role, tt.peer, "spiffe://x/swarm/sl"); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
