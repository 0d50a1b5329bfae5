package local

import (
	"context"
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/bridge/wire"
)

// letOut lets swarmctl get model fetch what the default contract makes: all data of a local swarm is on this machine. A
// program that names a contract of its own has its rules set as in any swarm.
func letOut(ctx context.Context, api API) error {
	if _, err := api.CreateContract(ctx, wire.DefaultContract, &swarmv1.Rules{Export: true}); err != nil {
		return fmt.Errorf("let models out of the swarm: %w", err)
	}
	return nil
}
