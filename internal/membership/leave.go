package membership

import (
	"context"
	"log/slog"
	"time"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// leaveTimeout bounds how long a node that ends tries to leave the swarm: its silence says the same, later.
	leaveTimeout = 5 * time.Second
	maxReason    = 256 // bytes
)

// Stopped is the reason of a node that leaves since it was stopped.
const Stopped = "stopped: the node was stopped"

// Leaving is the end of a node that has registered: all that it still has to say shares one time. The zero value of its time is that it has
// not begun.
type Leaving struct {
	Log *slog.Logger

	by time.Time // when the node must have left
}

// Context outlives ctx by the time that is left.
func (l *Leaving) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.by.IsZero() {
		l.by = time.Now().Add(leaveTimeout)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), l.by)
}

// Leave takes the node out of the swarm and gives the reason, unless ctx has ended: then it was stopped.
func (l *Leaving) Leave(ctx context.Context, api *client.Client, reason string) {
	if ctx.Err() != nil {
		reason = Stopped
	}
	reason = text.Cut(reason, maxReason)
	ctx, cancel := l.Context(ctx)
	defer cancel()
	if err := api.LeaveNode(ctx, reason); err != nil {
		l.Log.Warn("could not tell the swarm that this node leaves; it will find out by itself", "err", err)
		return
	}
	l.Log.Info("left the swarm", "reason", reason)
}
