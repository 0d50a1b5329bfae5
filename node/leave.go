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
	// leaveTimeout bounds how long a node that ends tries to leave the swarm: its silence says the same, later.
	leaveTimeout = 5 * time.Second
	maxReason    = 256 // bytes

	reasonStopped = "stopped: the node was stopped"
	reasonOver    = "training is over"
)

// leaveContext outlives ctx by leaveTimeout, which the end of the session and the leave share.
func (s *sl) leaveContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.leaveBy.IsZero() {
		s.leaveBy = time.Now().Add(leaveTimeout)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), s.leaveBy)
}

// endSession ends the session of a node that is stopped, so that nobody waits for it.
func (s *sl) endSession(ctx context.Context, engine *session.Engine) {
	ctx, cancel := s.leaveContext(ctx)
	defer cancel()
	if err := engine.Leave(ctx, reasonStopped); err != nil {
		s.cfg.Log.Warn("could not tell the contract that this node was stopped", "err", err)
	}
}

// leave takes this node out of the swarm and gives the reason. ctx's end is the wish to stop it.
func (s *sl) leave(ctx context.Context, api *client.Client, ended error) {
	reason := reasonOver
	switch {
	case ctx.Err() != nil:
		reason = reasonStopped
	case ended != nil:
		reason = "failed: " + runner.Reason(ended)
	}
	reason = text.Cut(reason, maxReason)
	ctx, cancel := s.leaveContext(ctx)
	defer cancel()
	if err := api.LeaveNode(ctx, reason); err != nil {
		s.cfg.Log.Warn("could not tell the swarm that this node leaves; it will find out by itself", "err", err)
		return
	}
	s.cfg.Log.Info("left the swarm", "reason", reason)
}
