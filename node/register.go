package node

import (
	"context"
	"errors"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/version"
)

// register makes this node known to the swarm; it waits for an SN that answers. info says of the node what its configuration does not.
// The caller closes the client.
func (b *base) register(ctx context.Context, sns []string, info client.NodeInfo) (*client.Client, error) {
	log := b.cfg.Log
	api, err := membership.NewClient(b.swarm, client.Config{SNs: sns, Source: b.source, Domains: b.domains, Dial: b.deps.Dial, Log: log})
	if err != nil {
		return nil, err
	}
	differ, err := api.Choose(ctx)
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	if differ != "" {
		log.Warn("not all SNs that were named are of one swarm", "which", differ)
	}
	info.Name, info.Host, info.Version = b.cfg.Name, b.cfg.Host, version.Read().String()
	if err := api.Register(ctx, client.Registration{Node: info, Key: b.key}); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	b.health.Seen() // the leader has committed it
	log.Info("registered with the swarm", "node", b.cfg.Name, "swarm_id", b.swarm.SwarmID())
	return api, nil
}
