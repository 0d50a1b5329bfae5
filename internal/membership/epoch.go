package membership

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/epoch"
)

// epochEvery is how often an SN without a leader asks the others whether the swarm was recovered without it.
const epochEvery = 3 * time.Second

// epochsEvery is how often an SN with a leader asks whether others follow a later epoch beside it.
const epochsEvery = time.Minute

// listEvery is how often an SN looks for others to keep in its list: it may be killed soon after they have joined.
const listEvery = 250 * time.Millisecond

// CheckEpoch asks the SNs that this one knew last, before it takes any part: where the others of its old group start too, they
// would else make that up again beside the new one.
func (s *Member) CheckEpoch(ctx context.Context) error {
	kept, err := OpenSNList(s.cfg.StateDir).Read(s.cfg.Pin.SwarmID())
	if err != nil {
		s.cfg.Log.Warn("the list of SNs that was kept is not used; it is made anew", "err", err)
	}
	return s.superseded(ctx, kept, false)
}

// superseded returns an error if one of these SNs proves that the swarm was recovered without this one. While this one has a leader, or a
// majority with those of its own epoch, it only says that there are two groups: that most are lost was a mistake, or a lie, and SLs of the
// old epoch stay too.
func (s *Member) superseded(ctx context.Context, others []client.SN, led bool) error {
	own := s.cfg.Pin.Epoch()
	if own.SwarmID == "" || len(others) == 0 {
		return nil
	}
	cfg := client.Config{SwarmID: own.String(), Source: s.cfg.Source, Domains: s.cfg.Domains, Dial: s.cfg.Dial, Log: s.cfg.Log}
	for _, sn := range others {
		cfg.SNs = append(cfg.SNs, sn.Address)
	}
	api, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer api.Close()
	later := api.Superseded(ctx)
	switch {
	case later.SN == "":
		return nil
	case led || later.Most:
		s.cfg.Log.Error("two groups of SNs live: the swarm was recovered beside a majority of its SNs, of which this is one",
			"epoch", later.Pin.Number(), "recovered_at", later.SN, "still_of_this_epoch", later.Still,
			"remedy", "see which of the two most SLs follow, and stop the other one; docs/operations/recover.md has how")
		return nil
	}
	return s.lost(later.Pin, later.SN)
}

// lost is what an SN says that its swarm has left behind, by the word of another at an API address.
func (s *Member) lost(next epoch.Pin, by string) error {
	host, _, err := net.SplitHostPort(by)
	if err != nil {
		return err
	}
	return fmt.Errorf("the swarm was recovered without this SN, as epoch %d: move its state directory %s away and start it again with its usual command and --join %s, so that it joins as a new SN; but if most SLs still follow the SNs of its old group, stop that other SN for good instead",
		next.Number(), s.cfg.StateDir, host)
}

// WatchEpoch keeps the list of SNs for the next start, and asks them whether the swarm was recovered without this one, which is an error
// where this one has no majority: soon after it lost its leader, and now and then beside one.
func (s *Member) WatchEpoch(ctx context.Context, group *consensus.Group) error {
	list, asked, led := OpenSNList(s.cfg.StateDir), time.Now(), time.Now()
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	kept, _ := list.Read(s.cfg.Pin.SwarmID()) // CheckEpoch has said what is wrong with it
	var asking chan error                     // has the answer to the question under way; nil: there is none
	for {
		view := group.View()
		var others []client.SN
		for _, n := range view.NodesByRole(string(identity.RoleSN)) {
			if n.Name != s.cfg.Name {
				others = append(others, client.SN{Name: n.Name, Address: cmp.Or(n.APIService, address.Join(n.Host, int(n.APIPort)))})
			}
		}
		if len(others) > 0 && view.SwarmID != "" && !slices.Equal(others, kept) {
			if err := list.Write(view.SwarmID, others); err != nil {
				s.cfg.Log.Warn("could not keep the list of SNs for the next start", "err", err)
			}
			kept = others
		}
		select {
		case <-ctx.Done():
			if asking != nil {
				_ = <-asking // it ends because of ctx
			}
			return nil
		case err := <-asking:
			if asking = nil; err != nil {
				return err
			}
		case <-tick.C:
		}
		every := epochEvery
		_, _, leads := group.Leader()
		if leads {
			led, every = time.Now(), epochsEvery
		}
		if asking != nil || time.Since(asked) < every || !leads && time.Since(led) < epochEvery { // an election is no loss
			continue
		}
		asked, asking = time.Now(), make(chan error, 1)
		go func(others []client.SN, answer chan<- error) { // SNs that are silent take seconds, and the list is kept meanwhile
			answer <- s.superseded(ctx, others, leads)
		}(kept, asking) // without a leader the log may not be applied, and the view empty
	}
}
