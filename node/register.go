package node

import (
	"context"
	"errors"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/version"
	"github.com/swarmd/swarmd/merge"
)

// register makes this node known to the swarm; it waits for an SN that answers.
func (s *sl) register(ctx context.Context) (*client.Client, error) {
	log := s.cfg.Log
	api, err := membership.NewClient(s.base.swarm, client.Config{
		SNs: s.cfg.SNs, Source: s.base.source, Domains: s.base.domains, Dial: s.base.deps.Dial, Log: log,
	})
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
	err = api.Register(ctx, client.Registration{
		Node: client.NodeInfo{Name: s.cfg.Name, Role: identity.RoleSL, Host: s.cfg.Host, FSPort: uint32(s.cfg.FSPort), Runtime: s.runner.Runtime(), Version: version.Read().String()}, //nolint:gosec // checked port
		Key:  s.base.key,
	})
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	s.base.health.Seen() // the leader has committed it
	log.Info("registered with the swarm", "node", s.cfg.Name, "swarm_id", s.base.swarm.SwarmID())
	log.Debug("means are summed", "kernel", merge.Kernel())
	return api, nil
}
