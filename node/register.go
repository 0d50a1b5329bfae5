package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/merge"
)

// strayWait is for how long a node waits for SNs of its swarm while those that answer are of another one: a host comes back within
// minutes, and who ends at once is started again at once, without its program's session.
const strayWait = 10 * time.Minute

// client makes the client of this node, which knows the SNs that it was started with and those that it learned last.
func (s *sl) client() (*client.Client, error) {
	log, list := s.cfg.Log, openSNList(s.cfg.StateDir)
	kept, err := list.read(s.base.swarm.get())
	if err != nil {
		log.Warn("the list of SNs that was kept is not used; it is made anew when an SN answers", "err", err)
	}
	return client.New(client.Config{
		SNs: s.cfg.SNs, Kept: kept, SwarmID: s.base.swarm.pin().String(), Source: s.base.source, Domains: s.base.domains, Dial: s.base.deps.Dial, Log: log, StrayWait: strayWait,
		OnWait: func(msg string) { log.Info("waiting for the swarm", "why", msg) },
		OnQuorum: func(lost, remedy string) {
			if lost == "" {
				log.Info("the SNs have a quorum again")
				return
			}
			log.Warn("no round is planned until the SNs have a quorum again; this node waits", "why", lost, "remedy", remedy)
		},
		OnStray: func(sn, swarmID string) {
			if own := s.base.swarm.pin(); own.Compare(swarmID) != epoch.Other {
				log.Warn("an SN is of another epoch of the swarm than this node follows", "sn", sn, "why", own.Differ(swarmID))
				return
			}
			log.Warn("an SN is of another swarm than this node: if it is one that lost its state and founded a swarm of its own stop it", "sn", sn, "its_swarm", swarmID, "swarm_id", s.base.swarm.get())
		},
		OnFollow: func(p epoch.Pin) {
			if err := s.base.swarm.follow(p); err != nil {
				log.Error("could not pin the epoch of the swarm", "err", err)
			}
			log.Warn("the swarm was recovered by an operator; this node follows its new epoch", "epoch", p.Epoch, "swarm_id", p.SwarmID)
		},
		OnStay: func(sn, why string) {
			log.Warn("an SN says that the swarm was recovered, and this node does not follow it", "sn", sn, "why", why)
		},
		OnLearn: func(id string, sns []client.SN) {
			if err := s.base.swarm.set(id); err != nil {
				log.Error("pin the swarm", "err", err)
			}
			if err := list.write(id, sns); err != nil {
				log.Warn("keep the list of SNs for the next start", "err", err)
			}
			var known []string
			for _, sn := range sns {
				known = append(known, sn.Address)
			}
			log.Info("the swarm is known", "swarm_id", id, "sns", fmt.Sprint(known))
		},
	})
}

// register makes this node known to the swarm; it waits for an SN that answers.
func (s *sl) register(ctx context.Context) (*client.Client, error) {
	log := s.cfg.Log
	api, err := s.client()
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
		Node: client.NodeInfo{Name: s.cfg.Name, Role: identity.RoleSL, Host: s.cfg.Host, FSPort: uint32(s.cfg.FSPort), Runtime: s.runner.Runtime()}, //nolint:gosec // checked port
		Key:  s.base.key,
	})
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	s.base.health.Seen() // the leader has committed it
	log.Info("registered with the swarm", "node", s.cfg.Name, "swarm_id", s.base.swarm.get())
	log.Debug("means are summed", "kernel", merge.Kernel())
	return api, nil
}
