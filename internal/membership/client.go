package membership

import (
	"fmt"
	"time"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/epoch"
)

// strayWait is for how long a node waits for SNs of its swarm while those that answer are of another one: a host comes back within
// minutes, and who ends at once is started again at once, without its program's session.
const strayWait = 10 * time.Minute

// NewClient makes the client of an SL. It knows the SNs that it was started with and those that it learned last, keeps what it learns of
// them and of the swarm, and logs what a user should know. The caller closes it.
func NewClient(swarm *Pin, cfg client.Config) (*client.Client, error) {
	log, list := cfg.Log, OpenSNList(swarm.dir)
	kept, err := list.Read(swarm.SwarmID())
	if err != nil {
		log.Warn("the list of SNs that was kept is not used; it is made anew when an SN answers", "err", err)
	}
	cfg.Kept, cfg.SwarmID, cfg.StrayWait = kept, swarm.Epoch().String(), strayWait
	cfg.OnWait = func(msg string) { log.Info("waiting for the swarm", "why", msg) }
	cfg.OnQuorum = func(lost, remedy string) {
		if lost == "" {
			log.Info("the SNs have a quorum again")
			return
		}
		log.Warn("no round is planned until the SNs have a quorum again; this node waits", "why", lost, "remedy", remedy)
	}
	cfg.OnStray = func(sn, swarmID string) {
		if own := swarm.Epoch(); own.Compare(swarmID) != epoch.Other {
			log.Warn("an SN is of another epoch of the swarm than this node follows", "sn", sn, "why", own.Differ(swarmID))
			return
		}
		log.Warn("an SN is of another swarm than this node: if it is one that lost its state and founded a swarm of its own stop it", "sn", sn, "its_swarm", swarmID, "swarm_id", swarm.SwarmID())
	}
	cfg.OnFollow = func(p epoch.Pin) {
		if err := swarm.Follow(p); err != nil {
			log.Error("could not pin the epoch of the swarm", "err", err)
		}
		log.Warn("the swarm was recovered by an operator; this node follows its new epoch", "epoch", p.Epoch, "swarm_id", p.SwarmID)
	}
	cfg.OnStay = func(sn, why string) {
		log.Warn("an SN says that the swarm was recovered, and this node does not follow it", "sn", sn, "why", why)
	}
	cfg.OnLearn = func(id string, sns []client.SN) {
		if err := swarm.Set(id); err != nil {
			log.Error("could not pin the swarm", "err", err)
		}
		if err := list.Write(id, sns); err != nil {
			log.Warn("could not keep the list of SNs for the next start", "err", err)
		}
		var known []string
		for _, sn := range sns {
			known = append(known, sn.Address)
		}
		log.Info("the swarm is known", "swarm_id", id, "sns", fmt.Sprint(known))
	}
	return client.New(cfg)
}
