package runner

import (
	"context"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/ranks"
	"github.com/swarmd/swarmd/internal/session"
)

// Join says by which client the program's ranks are started, if it is the first of several.
func (r *Runner) Join(api *client.Client) {
	if r.cfg.Ranks != nil {
		r.swarm = ranks.At(api)
	}
}

// start starts the program, with the other ranks if it is the first of several.
func (r *Runner) start(ctx context.Context, engine *session.Engine) (Running, error) {
	if r.swarm == nil {
		return r.how.start(ctx, nil)
	}
	return r.cfg.Ranks.Start(ctx, r.swarm, ranks.Host{
		Start: func(ctx context.Context, env []string) (ranks.Running, error) { return r.how.start(ctx, env) },
		Failed: func(ctx context.Context, exit launch.Exit) {
			r.tell(ctx, engine, status(exit), "program "+r.cfg.Program+": "+exit.String(), exit.Tail)
		},
	}), nil
}
