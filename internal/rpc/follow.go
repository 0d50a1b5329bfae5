package rpc

import (
	"context"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
)

// keepAlive is how often an unchanged view is sent again, so that a silent stream is known to be dead.
const keepAlive = 15 * time.Second

// Follow shows the view to the node that calls, first the current one and then each newer one, until ctx ends, the node is banned, this SN
// stops or has no leader for long, or show fails.
func (s *shared) Follow(ctx context.Context, show func(tasks.Sight) error) error {
	at := tasks.Sight{Node: speaker(ctx)}
	peerID := ""
	if n := s.cfg.Core.View().Nodes[at.Node]; n != nil {
		peerID = n.PeerID
	}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	leaderless := 0
	for at.Again = true; ; {
		changed := s.cfg.Core.Changed()
		at.View, at.Index = s.viewAt()
		if err := at.View.CheckBan(peerID); err != nil {
			return err
		}
		if err := show(at); err != nil {
			return err
		}
		at.Again = false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stopping:
			return ErrStopping
		case <-tick.C:
			at.Again = true
			// A view that nobody leads may be old for ever, while the swarm goes on elsewhere.
			if leader, _, _ := s.cfg.Core.Leader(); leader != "" {
				leaderless = 0
			} else if leaderless++; leaderless >= 2 {
				return s.leaderless(ctx)
			}
		case <-changed:
		}
	}
}

// viewAt returns the view and the index that it shows, no higher and no lower: clients drop a view whose index is below
// one that they have seen, and would miss what a view with too high a one hides.
func (s *shared) viewAt() (*state.State, uint64) {
	for {
		index, view := s.cfg.Core.Index(), s.cfg.Core.View()
		if s.cfg.Core.Index() == index { // it grows with each view
			return view, index
		}
	}
}
