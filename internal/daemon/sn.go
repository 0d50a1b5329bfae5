package daemon

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/node"
)

// foundFlag skips listening, which lasts as long as the SNs of a swarm that lives need to dial all their members some times.
const (
	foundFlag    = "found-at-once"
	listenBefore = 5 * time.Second
)

func foundAfter(c *cli.Context) time.Duration {
	if c.Bool(foundFlag) {
		return 0
	}
	return listenBefore
}

func snCommand(e Env) *cli.Command {
	flags := append(commonFlags(), envFlag("K=V in the container's environment, with --runtime docker (repeatable)"),
		stringFlag("sentinel-ip", "host of the Sentinel; equal to --host-ip makes this node the Sentinel (required)"),
		portFlag("sn-p2p-port", 30303, "port for the traffic between SNs"),
		portFlag("sn-api-port", 30304, "port of the API"),
		portFlag("sn-fs-port", 30305, "port of the file server"),
		portFlag("sentinel-fs-port", 30305, "the Sentinel's file server port"),
		stringFlag("admit", "who lets SNs into a swarm that this node founds: operator, with swarmctl admit node (default: nobody is asked)"),
		&cli.BoolFlag{Name: foundFlag, Usage: "found a swarm without listening first for one that lives; for swarms on one machine", Hidden: true, EnvVars: env(foundFlag)},
		&cli.StringSliceFlag{Name: "join", Usage: "HOST[:PORT] of an SN's file server to ask before bootstrapping (repeatable)"},
	)
	flags = append(flags, waitFlags()...)
	return described(agentHelp, command("run-sn", "run a Swarm Network node", flags, func(c *cli.Context) error {
		cfg, err := snConfig(c, e)
		if err != nil {
			return err
		}
		if inContainer(c) {
			spec, err := snSpec(c, e)
			if err != nil {
				return err
			}
			return runComponent(c, e, runsSpec(spec))
		}
		defer registered(e, engine.RoleSN, cfg.Name, "", cfg.StateDir, cfg.Log)()
		return node.RunSN(c.Context, cfg)
	}))
}

// snConfig checks what the options mean to the node, in both runtimes, and is the node's configuration in this process.
func snConfig(c *cli.Context, e Env) (node.SNConfig, error) {
	base, err := common(c, e, "sn", "swarm.SN", c.Int("sn-p2p-port"))
	if err != nil {
		return node.SNConfig{}, err
	}
	if c.String("sentinel-ip") == "" {
		return node.SNConfig{}, errors.New("mandatory parameter --sentinel-ip not specified; give the Sentinel's address, or this node's own to make it the Sentinel")
	}
	if err := node.CheckHost("sentinel-ip", c.String("sentinel-ip")); err != nil {
		return node.SNConfig{}, err
	}
	if a := c.String("admit"); a != "" && a != state.AdmitOperator {
		return node.SNConfig{}, fmt.Errorf("--admit %q: want operator, or leave it out: then nobody is asked", a)
	}
	for _, j := range c.StringSlice("join") {
		if _, err := node.JoinAddress(j); err != nil {
			return node.SNConfig{}, err
		}
	}
	quorum, err := wait(c, e, quorumFlag, quorumSecondsFlag, quorumVariable)
	if err != nil {
		return node.SNConfig{}, err
	}
	stall, err := wait(c, e, stallFlag, stallSecondsFlag, stallVariable)
	if err != nil {
		return node.SNConfig{}, err
	}
	return node.SNConfig{
		Common: base, SentinelHost: c.String("sentinel-ip"), P2PPort: c.Int("sn-p2p-port"), APIPort: c.Int("sn-api-port"),
		FSPort: c.Int("sn-fs-port"), SentinelFSPort: c.Int("sentinel-fs-port"), Join: c.StringSlice("join"), Admit: c.String("admit") != "",
		QuorumWait: quorum, StallGrace: stall, FoundAfter: foundAfter(c), Version: version(),
	}, nil
}

// snSpec is the component of an SN.
func snSpec(c *cli.Context, e Env) (component.Spec, error) {
	if _, err := snConfig(c, e); err != nil {
		return component.Spec{}, err
	}
	var o start.SN
	if err := read(c, &o); err != nil {
		return component.Spec{}, err
	}
	return o.Component(startEnv(e))
}
