package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/epoch"
)

const (
	// followAgain is the least time between two questions whether to follow a later epoch.
	followAgain = 2 * time.Second
	// maxRecoveries bounds the recoveries that an SN may show.
	maxRecoveries = 64
)

// pinned reads what names a swarm; what is no such name is no swarm's.
func pinned(named string) epoch.Pin {
	p, err := epoch.Parse(named)
	if err != nil {
		return epoch.First(named)
	}
	return p
}

// named says which swarm is pinned, and its epoch if it is not the first.
func named(p epoch.Pin) string {
	if p.Epoch < 2 {
		return fmt.Sprintf("swarm %q", p.SwarmID)
	}
	return fmt.Sprintf("swarm %q, epoch %d,", p.SwarmID, p.Epoch)
}

// differs says how an SN's swarm differs from the pinned one.
func differs(p epoch.Pin, sn, theirs string) string {
	switch q := pinned(theirs); p.Compare(theirs) {
	case epoch.Newer:
		return fmt.Sprintf("SN %s is of epoch %d of the swarm, this one follows epoch %d", sn, q.Number(), p.Number())
	case epoch.Older:
		return fmt.Sprintf("SN %s is of epoch %d of the swarm, which was recovered as epoch %d", sn, q.Number(), p.Number())
	case epoch.Another:
		return fmt.Sprintf("SN %s is of another recovery of the swarm to epoch %d", sn, p.Number())
	}
	return fmt.Sprintf("SN %s belongs to swarm %.64q", sn, theirs)
}

// epochs asks SNs which swarm they are of, and follows the swarm to later epochs.
type epochs struct{ client *Client }

// follow goes on to the later epoch of our swarm that an SN is of, if operators have signed for it and no majority of the SNs that we
// know is of the epoch that we follow. It reports whether the epoch is another one now. It blocks for some seconds at most.
func (e epochs) follow(ctx context.Context, sn, theirs string) bool {
	from, ok := e.client.dir.mayFollow(theirs)
	if !ok {
		return false
	}
	cfg := e.client.cfg
	next, err := e.recovered(ctx, sn, from)
	if err == nil {
		err = e.oldQuorum(ctx, from)
	}
	if err != nil {
		cfg.Log.DebugContext(ctx, "a later epoch is not followed", "sn", sn, "err", err)
		if cfg.OnStay != nil && ctx.Err() == nil {
			cfg.OnStay(sn, err.Error())
		}
		return false
	}
	e.client.dir.follow(from, next)
	return true
}

// recovered returns the epoch that an SN proves to follow on ours.
func (e epochs) recovered(ctx context.Context, sn string, from epoch.Pin) (epoch.Pin, error) {
	res, err := e.at(ctx, sn)
	if err != nil {
		return from, err
	}
	if len(res.GetRecoveries()) > maxRecoveries {
		return from, fmt.Errorf("it shows %d recoveries", len(res.GetRecoveries()))
	}
	var all []ledger.Recovery
	for _, raw := range res.GetRecoveries() {
		var r ledger.Recovery
		if err := json.Unmarshal(raw, &r); err != nil {
			return from, fmt.Errorf("a recovery that it shows does not read: %w", err)
		}
		all = append(all, r)
	}
	if e.client.cfg.Source == nil {
		return from, errors.New("there is no trust bundle to check it by")
	}
	return epoch.Follow(from, all, e.client.cfg.Source)
}

// oldQuorum returns an error if a majority of the SNs that we know is of the epoch that we follow.
func (e epochs) oldQuorum(ctx context.Context, from epoch.Pin) error {
	sns := e.client.SNs()
	old := 0
	for _, s := range e.swarmsOf(ctx, sns) {
		if s.swarm == from.String() {
			old++
		}
	}
	if 2*old > len(sns) {
		return fmt.Errorf("%d of the %d SNs that this node knows still are of epoch %d", old, len(sns), from.Number())
	}
	return nil
}

// at asks one SN, whatever swarm it is of.
func (e epochs) at(ctx context.Context, sn string) (*swarmv1.GetSwarmResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := e.client.connections.stubs(sn)
	if err != nil {
		return nil, err
	}
	res, err := service[swarmv1connect.SwarmServiceClient](s, false).GetSwarm(ctx, connect.NewRequest(&swarmv1.GetSwarmRequest{}))
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

// Later is what an SN hears of later epochs of its swarm than its own.
type Later struct {
	Pin   epoch.Pin // the latest that an SN proves
	SN    string    // the API address of who proves it; empty: nobody does
	Most  bool      // who asks and the SNs that are of its own epoch still are a majority of all
	Still []string  // API addresses of these SNs
}

// Superseded asks, for an SN, all others whether the swarm has gone on to a later epoch. It blocks for some seconds at most.
func (c *Client) Superseded(ctx context.Context) Later {
	from, sns := c.dir.pinned(), c.SNs()
	l := Later{Pin: from}
	for _, s := range c.epochs.swarmsOf(ctx, sns) {
		if s.swarm == from.String() {
			l.Still = append(l.Still, s.sn)
		}
		if s.swarm == "" || from.Compare(s.swarm) != epoch.Newer {
			continue
		}
		if p, err := c.epochs.recovered(ctx, s.sn, from); err == nil && p.Epoch > l.Pin.Epoch {
			l.Pin, l.SN = p, s.sn
		} else if err != nil {
			c.cfg.Log.WarnContext(ctx, "an SN claims a later epoch of the swarm, and does not prove it", "sn", s.sn, "err", err)
		}
	}
	l.Most = 2*(len(l.Still)+1) > len(sns)+1
	return l
}
