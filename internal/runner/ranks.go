package runner

import (
	"context"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/ranks"
	"github.com/swarmd/swarmd/internal/rendezvous"
	"github.com/swarmd/swarmd/internal/session"
)

// Join says by which client the program's ranks are started, if it is the first of several, and ends those that a run before has left there: this one may have
// a program by itself, or nothing to do.
func (r *Runner) Join(ctx context.Context, api *client.Client) { joinSwarm(ctx, r, ranks.At(api)) }

func joinSwarm(ctx context.Context, r *Runner, swarm ranks.Swarm) {
	ranks.EndLeft(ctx, swarm, r.cfg.Node, r.cfg.Log)
	if r.cfg.Ranks != nil {
		r.swarm = swarm
	}
}

// unsaid leaves out of rank 0's variables the interfaces that the user has named: they were found by an address, and who names one knows better. The other
// variables must be as the other ranks have them.
func unsaid(env, said []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return (strings.HasSuffix(name, "_SOCKET_IFNAME") || name == "HOROVOD_GLOO_IFACE") && slices.ContainsFunc(said, func(own string) bool { return strings.HasPrefix(own, name+"=") })
	})
}

// start starts the program, with the other ranks if it is the first of several.
func (r *Runner) start(ctx context.Context, engine *session.Engine) (Running, error) {
	if r.swarm == nil {
		return r.how.start(ctx, nil, nil)
	}
	return r.cfg.Ranks.Start(ctx, r.swarm, r.first(engine)), nil
}

// first is this runner as what starts rank 0.
func (r *Runner) first(engine *session.Engine) ranks.Host {
	return ranks.Host{
		Start: func(ctx context.Context, env []string, meets *rendezvous.Meeting) (ranks.Running, error) {
			return r.how.start(ctx, unsaid(env, r.cfg.Env), meets)
		},
		Failed: func(ctx context.Context, exit launch.Exit) {
			r.tell(ctx, engine, status(exit), "program "+r.cfg.Program+": "+exit.String(), exit.Tail)
		},
	}
}
