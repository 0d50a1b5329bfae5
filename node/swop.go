package node

import (
	"context"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/swop"
)

// run runs a SWOP until ctx ends.
func (cfg SWOPConfig) run(ctx context.Context, deps Deps) (int, error) {
	b, err := openBase(ctx, cfg.Common, deps, identity.RoleSWOP)
	if err != nil {
		if err = quiet(ctx, err); err == nil {
			return 0, nil // stopped as asked while it waited: there was nothing to end
		}
		return 1, err
	}
	defer b.close()
	if err := quiet(ctx, cfg.work(ctx, b, deps)); err != nil {
		return 1, err
	}
	cfg.Log.Info("stopped as asked", "node", cfg.Name)
	return 0, nil
}

// work registers, carries out tasks and leaves the swarm.
func (cfg SWOPConfig) work(ctx context.Context, b *base, deps Deps) error {
	owner, err := cfg.Policy(b.source.ID().SPIFFE().TrustDomain().Name())
	if err != nil {
		return err
	}
	cfg.Log.Info("tasks are carried out as this host's owner says", "policy", swop.Owner{Policy: owner, Place: cfg.Place}.Words(), "taskrunner", cfg.Offer.Taskrunner, "sls", cfg.Offer.Peers)
	bans := &admission.Bans{}
	machine := swop.Machine{Host: cfg.Host, Lookup: deps.Lookup, Listen: deps.Listen, Open: b.deps.OpenHost}
	files, err := swop.OpenFileServer(ctx, cfg.Files, machine, p2p.Config{Key: b.key, Source: b.source, Domains: b.domains, SwarmID: b.swarm.Named, Log: cfg.Log, Refuse: bans.Refuse})
	if err != nil {
		return err
	}
	defer files.Close()
	bans.Cut = files.Cut
	offer := swop.Within(cfg.Offer, owner)
	api, err := b.register(ctx, cfg.SNs, client.NodeInfo{Role: identity.RoleSWOP, FSPort: files.Port(), Runtime: cfg.Runtime, Offer: &offer})
	if err != nil {
		return err
	}
	defer api.Close()
	err = swop.Run(ctx, swop.Config{
		Name: cfg.Name, StateDir: cfg.StateDir, API: api, Source: b.source, Domains: b.domains, SwarmID: b.swarm.SwarmID, Taskrunner: cfg.Offer.Taskrunner, Peers: cfg.Offer.Peers, Policy: owner, Place: cfg.Place,
		Types: b.metrics.Members(cfg.Types), OwnLog: b.cfg.OwnLog, Files: files, Bans: bans, Health: b.health, Log: cfg.Log,
	})
	leaving, reason := membership.Leaving{Log: cfg.Log}, membership.Stopped
	if err != nil {
		reason = "failed: " + err.Error()
	}
	leaving.Leave(ctx, api, reason)
	return err
}
