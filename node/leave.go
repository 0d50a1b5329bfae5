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

// leaving is the end of a node that has registered: all that it still has to say shares one leaveTimeout.
type leaving struct {
	*base

	by time.Time // when the node must have left, zero before it began to
}

// context outlives ctx by leaveTimeout.
func (l *leaving) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.by.IsZero() {
		l.by = time.Now().Add(leaveTimeout)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), l.by)
}

// endSession ends the session of a node that is stopped, so that nobody waits for it.
func (l *leaving) endSession(ctx context.Context, engine *session.Engine) {
	ctx, cancel := l.context(ctx)
	defer cancel()
	if err := engine.Leave(ctx, reasonStopped); err != nil {
		l.cfg.Log.Warn("could not tell the contract that this node was stopped", "err", err)
	}
}

// leave takes this node out of the swarm and gives the reason: over, unless it was stopped, which ctx's end says, or has failed.
func (l *leaving) leave(ctx context.Context, api *client.Client, ended error, over string) {
	reason := over
	switch {
	case ctx.Err() != nil:
		reason = reasonStopped
	case ended != nil:
		reason = "failed: " + runner.Reason(ended)
	}
	reason = text.Cut(reason, maxReason)
	ctx, cancel := l.context(ctx)
	defer cancel()
	if err := api.LeaveNode(ctx, reason); err != nil {
		l.cfg.Log.Warn("could not tell the swarm that this node leaves; it will find out by itself", "err", err)
		return
	}
	l.cfg.Log.Info("left the swarm", "reason", reason)
}
