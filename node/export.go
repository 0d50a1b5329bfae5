package node

import (
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
)

// MayFetch returns nil if a peer may have the contract's models: as one of its participants, or as an operator with swarmctl
// if the contract's rules let models out.
func MayFetch(v *swarmv1.ContractView, role identity.Role, peerID, spiffeID string) error {
	if role != identity.RoleSWCI {
		return Enrolled(v, peerID, spiffeID)
	}
	if !v.GetRules().GetExport() {
		return fmt.Errorf("the rules of contract %s do not let models out", v.GetName())
	}
	return nil
}
