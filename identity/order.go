package identity

import (
	"errors"
	"fmt"
	"slices"
)

// ProveOrder returns the SPIFFE ID of the operator whose SVID, as the bundles of src have it now, signed the order. The chain is the SVID's,
// DER, leaf first. Which trust domains are accepted the caller checks: see Domains. Nodes of the roles that are given may have signed it too.
func ProveOrder(src Source, o Order, chain [][]byte, signature []byte, roles ...Role) (ID, error) {
	if src == nil || len(chain) == 0 {
		return ID{}, errors.New("no certificate to check it by")
	}
	certs, err := ParseChain(chain)
	if err != nil {
		return ID{}, fmt.Errorf("its SVID: %w", err)
	}
	proven, err := VerifyChain(src, certs)
	if err != nil {
		return ID{}, err
	}
	id, err := ParseID(proven)
	if err != nil || !slices.Contains(append(roles, RoleSWCI), id.Role()) {
		return ID{}, fmt.Errorf("%s is no operator", proven)
	}
	if err := VerifySVIDSignature(certs[0], OrderMessage(o), signature); err != nil {
		return ID{}, fmt.Errorf("the key of %s did not sign this request for this swarm", proven)
	}
	return id, nil
}
