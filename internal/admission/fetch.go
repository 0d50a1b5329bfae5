package admission

import (
	"fmt"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/round"
)

// MayFetch returns nil if a peer may have the contract's models: as one of its participants, or as an operator with swarmctl
// if the contract's rules let models out. A view of another contract allows nothing: the node's session may be another's by
// the time that the model is opened.
func MayFetch(v *round.View, contract string, role identity.Role, peerID, spiffeID string) error {
	if v.Name != contract {
		return fmt.Errorf("no session of contract %s here", contract)
	}
	if role != identity.RoleSWCI {
		return Enrolled(v, peerID, spiffeID)
	}
	if !v.Rules.Export {
		return fmt.Errorf("the rules of contract %s do not let models out", v.Name)
	}
	return nil
}
