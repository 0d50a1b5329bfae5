package node

import (
	"context"
	"time"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// goodbyeLimit bounds how long a node that ends tries to say so: its silence says the same, later.
	goodbyeLimit = 5 * time.Second
	maxGoodbye   = 256 // bytes

	reasonStopped = "stopped: the node was stopped"
	reasonOver    = "training is over"
)

// lastWords outlives ctx by the limit, which all that is said at the end shares.
func (s *sl) lastWords(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.goneBy.IsZero() {
		s.goneBy = time.Now().Add(goodbyeLimit)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), s.goneBy)
}

// endSession ends the session of a node that is stopped, so that nobody waits for it.
func (s *sl) endSession(ctx context.Context, engine *session.Engine) {
	ctx, cancel := s.lastWords(ctx)
	defer cancel()
	if err := engine.Leave(ctx, reasonStopped); err != nil {
		s.cfg.Log.Warn("could not tell the contract that this node was stopped", "err", err)
	}
}

// goodbye tells the swarm that this node goes, and why. ctx's end is the wish to stop it.
func (s *sl) goodbye(ctx context.Context, api *client.Client, ended error) {
	reason := reasonOver
	switch {
	case ctx.Err() != nil:
		reason = reasonStopped
	case ended != nil:
		reason = "failed: " + runner.Reason(ended)
	}
	reason = text.Cut(reason, maxGoodbye)
	ctx, cancel := s.lastWords(ctx)
	defer cancel()
	if err := api.LeaveNode(ctx, reason); err != nil {
		s.cfg.Log.Warn("could not tell the swarm that this node leaves; it will find out by itself", "err", err)
		return
	}
	s.cfg.Log.Info("left the swarm", "reason", reason)
}
