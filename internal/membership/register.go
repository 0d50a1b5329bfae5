package membership

import (
	"context"
	"errors"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/version"
)

// Register makes a node known to the swarm, by a client that NewClient makes of cfg; it waits for an SN that answers. The caller closes the
// client.
func Register(ctx context.Context, swarm *Pin, cfg client.Config, reg client.Registration) (*client.Client, error) {
	api, err := NewClient(swarm, cfg)
	if err != nil {
		return nil, err
	}
	differ, err := api.Choose(ctx)
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	if differ != "" {
		cfg.Log.Warn("not all SNs that were named are of one swarm", "which", differ)
	}
	reg.Node.Version = version.Read().String()
	if err := api.Register(ctx, reg); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	cfg.Log.Info("registered with the swarm", "node", reg.Node.Name, "swarm_id", swarm.SwarmID())
	return api, nil
}
