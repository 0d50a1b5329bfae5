package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/ranks"
	"github.com/swarmd/swarmd/node"
)

const forRanks = "A program of several ranks, of which this node runs the first and hosts the others:"

// rankFlags are the options of a program of several ranks.
func rankFlags() []cli.Flag {
	number := func(name, usage string) cli.Flag {
		return &cli.IntFlag{Name: name, Usage: usage, Category: forRanks, EnvVars: env(name)}
	}
	text := func(name, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Usage: usage, Category: forRanks, EnvVars: env(name)}
	}
	list := func(name, usage string) cli.Flag {
		return &cli.StringSliceFlag{Name: name, Usage: usage + " (repeatable)", Category: forRanks}
	}
	return []cli.Flag{
		number("ranks", "how many ranks the program has, with rank 0, which this node runs itself, in a container with --ml-network host; the others are a job that SWOPs run whose policy names this node"),
		text("framework", "what the ranks are of: pytorch (the default) or horovod"),
		number("restarts", "how often all ranks are started again when one has ended too early, from the swarm's last model (default 0)"),
		list("rank-host", "SWOP that may have ranks, which take turns on them (default: all that take jobs)"),
		number("rank-port", "port of this host where rank 0 awaits the others, MASTER_PORT or HOROVOD_GLOO_RENDEZVOUS_PORT (default: the first free one from 29400 on)"),
		text("rank-image", "image of the other ranks, for hosts that run jobs in containers (default: they are processes)"),
		list("rank-volume", "NAME:/path[:rw], a folder that each host's policy has under NAME, in the containers of the other ranks"),
		list("rank-resources", "what each of the other ranks needs of its host, such as cpu=2,gpu=1 (default: whatever CPUs and memory there are, and no GPU; hosts then have nothing else beside the ranks of this node)"),
		list("rank-env", "K=V for the other ranks, such as DATA_DIR=/data; it stands in their job, which all of the swarm can read"),
	}
}

// slRanks are the ranks that an SL is to start; nil: its program is one by itself.
func slRanks(ctx context.Context, o *start.SL, cfg *node.SLConfig) (*ranks.Ranks, error) {
	if o.Ranks == 0 || o.Program == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	r := &ranks.Ranks{Port: int(o.RankPort), Restarts: o.Restarts, Log: cfg.Log, Program: ranks.Program{
		SL: cfg.Name, Address: cfg.Host, Framework: strings.ToLower(o.Framework), Ranks: o.Ranks, Image: o.RankImage, Hosts: o.RankHosts, Resources: o.RankResources, File: cfg.Program, Args: o.Args,
	}}
	for _, kv := range o.RankEnv {
		k, v, _ := strings.Cut(kv, "=")
		r.Env = jobfile.WithVars(r.Env, []jobfile.Var{{Name: k, Value: v}})
	}
	var err error
	if r.Volumes, err = jobfile.ReadVolumes(o.RankVolumes); err != nil {
		return nil, fmt.Errorf("--rank-volume: %w", err)
	}
	if r.Source, err = ranks.Source(cfg.ModelDir, cfg.Program); err != nil {
		return nil, err
	}
	ips, err := address.Lookup(net.DefaultResolver.LookupIP).Resolve(ctx, "host-ip", cfg.Host)
	if err != nil {
		return r, r.Check() // the node itself says what is wrong with its address
	}
	return r, cmp.Or(r.Check(), r.CheckAddress(ips))
}
