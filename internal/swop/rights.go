package swop

import (
	"context"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/client"
)

// rightsLimit bounds how long SNs are asked for rights. Whoever asks for a log waits no longer either: SNs judge it themselves then.
const rightsLimit = 1500 * time.Millisecond

// Rights asks the swarm for those of operators.
type Rights struct {
	API interface {
		// CheckReader fails if the rights of the swarm keep an operator from a log of this host.
		CheckReader(ctx context.Context, part *swarmv1.LogPart, by string) error
	}
}

// Deny says why the swarm's rights keep an operator from a log; empty: they do not. An error says that no SN could tell.
func (r Rights) Deny(ctx context.Context, by string, part *swarmv1.LogPart) (denied string, err error) {
	ctx, cancel := context.WithTimeout(ctx, rightsLimit)
	defer cancel()
	err = r.API.CheckReader(ctx, part, by)
	if client.Reason(err) == string(state.ReasonNoRight) {
		return err.Error(), nil
	}
	return "", err
}
