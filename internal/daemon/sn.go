package daemon

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/version"
	"github.com/swarmd/swarmd/node"
)

// foundFlag skips listening, which lasts as long as the SNs of a swarm that lives need to dial all their members some times.
const (
	foundFlag    = "found-at-once"
	listenBefore = 5 * time.Second
	// invitedFlag is for containers, which get it in a variable: in a process list it would be no secret.
	invitedFlag = "invitation-secret"
)

// passThrough is what a proxy does with the ports of nodes.
const passThrough = "nodes reach this one through a proxy: it must pass these ports through as they are, since streams between nodes begin without a TLS hello"

func snCommand(e Env) *cli.Command {
	flags := append(commonFlags(), envFlag("K=V in the container's environment, with --runtime docker (repeatable)"),
		stringFlag("sentinel-ip", "host of the Sentinel; equal to --host-ip makes this node the Sentinel (required unless --sentinel)"),
		&cli.BoolFlag{Name: "sentinel", Usage: "this node is the Sentinel: it founds the swarm", EnvVars: env("sentinel")},
		stringFlag("sentinel-api-service", "FQDN[:PORT] of the Sentinel behind a proxy, instead of --sentinel-ip"),
		stringFlag("sn-api-service", "FQDN[:PORT] (port 443 if there is none) under which others reach this node's API through a proxy, which may route it by SNI"),
		stringFlag("sn-p2p-service", "FQDN[:PORT] under which other SNs reach this node through a proxy, instead of --host-ip"),
		portFlag("sn-p2p-port", start.P2PPort, "port for the traffic between SNs"),
		portFlag("sn-api-port", start.APIPort, "port of the API"),
		portFlag("sn-fs-port", start.FSPort, "port of the file server"),
		portFlag("sentinel-fs-port", start.FSPort, "the Sentinel's file server port"),
		stringFlag("admit", "who lets SNs into a swarm that this node founds: operator, with swarmctl admit node (default: nobody is asked)"),
		&cli.BoolFlag{Name: "no-found", Usage: "never found a swarm: end if this node has no state and would be the Sentinel of a new one", EnvVars: env("no-found")},
		&cli.BoolFlag{Name: foundFlag, Usage: "found a swarm without listening first for one that lives; for swarms on one machine", Hidden: true, EnvVars: env(foundFlag)},
		&cli.StringFlag{Name: invitedFlag, Usage: "what an invitation holds by which this SN claims that it is admitted", Hidden: true, EnvVars: env(invitedFlag)},
		logsToFlag(),
		&cli.StringSliceFlag{Name: "join", Usage: "HOST[:PORT] of an SN's file server, of the swarm to join; --sentinel-ip is not needed then (repeatable)"},
	)
	flags = append(flags, waitFlags()...)
	return described(agentHelp, command("run-sn", "run a Swarm Network node", flags, func(c *cli.Context) error {
		if inContainer(c) {
			spec, err := snSpec(c, e)
			if err != nil {
				return err
			}
			return runComponent(c, e, runsSpec(spec))
		}
		cfg, err := snConfig(c, e)
		if err != nil {
			return err
		}
		defer registerProcess(e, naming.RoleSN, cfg.Name, "", cfg.StateDir, cfg.Log)()
		_, err = node.New(cfg, node.Deps{}).Run(c.Context)
		return err
	}))
}

// snConfig is the node's configuration in this process.
func snConfig(c *cli.Context, e Env) (node.SNConfig, error) {
	o, err := readSN(c, e)
	if err != nil {
		return node.SNConfig{}, err
	}
	return snNode(c, e, o)
}

// snNode checks what the options mean to the node, in both runtimes, and is its configuration in this process. The error is the first of
// snProblems.
func snNode(c *cli.Context, e Env, o *start.SN) (node.SNConfig, error) {
	cfg, wrong := snProblems(c, e, o)
	return cfg, wrong.first()
}

// snProblems is snNode with all that is wrong.
func snProblems(c *cli.Context, e Env, o *start.SN) (node.SNConfig, problems) {
	base, wrong := commonProblems(c, e, &o.Node, identity.RoleSN, o.P2PPort.Or(start.P2PPort))
	if wrong.add(o.Check()) && o.SentinelHost != "" {
		wrong.add(address.CheckHost("sentinel-ip", o.SentinelHost))
	}
	if o.Admit != "" && o.Admit != state.AdmitOperator {
		wrong.add(fmt.Errorf("--admit %q: want operator, or leave it out: then nobody is asked", o.Admit))
	}
	for _, j := range o.Join {
		_, err := address.FileServer(j)
		wrong.add(err)
	}
	secret, err := base64.RawURLEncoding.DecodeString(o.Admission)
	if err != nil || len(secret) != 0 && len(secret) != claim.SecretSize {
		wrong.add(errors.New("--" + invitedFlag + " is none: start this SN with --invite, and leave that out"))
	}
	cfg := node.SNConfig{
		Common: base,
		Options: membership.Options{
			SentinelHost: o.SentinelHost, P2PPort: int(o.P2PPort.Or(start.P2PPort)), APIPort: int(o.APIPort.Or(start.APIPort)),
			FSPort: int(o.FSPort.Or(start.FSPort)), APIService: o.APIService, Proxied: o.P2PService != "", SentinelFSPort: int(o.SentinelFSPort.Or(start.FSPort)), Join: o.Join, Admit: o.Admit != "",
			Meant: o.Sentinel, NoFound: o.NoFound,
			Version: version.Read().Version, Invitation: secret,
		},
	}
	if !o.FoundAtOnce {
		cfg.FoundAfter = listenBefore
	}
	if o.P2PService != "" && len(wrong) == 0 {
		base.Log.Info(passThrough, "host", o.Host, "ports", []start.Port{o.P2PPort.Or(start.P2PPort), o.FSPort.Or(start.FSPort)})
	}
	cfg.LogsTo = o.LogsTo
	cfg.QuorumWait, cfg.StallGrace, err = waits(o.Waits, nil)
	wrong.add(err)
	return cfg, wrong
}

// snSpec is the component of an SN.
func snSpec(c *cli.Context, e Env) (component.Spec, error) {
	o, err := readSN(c, e)
	if err == nil {
		_, err = snNode(c, e, o)
	}
	if err != nil {
		return component.Spec{}, err
	}
	return o.Component(startEnv(e))
}

func readSN(c *cli.Context, e Env) (*start.SN, error) {
	o := new(start.SN)
	if err := read(c, o); err != nil {
		return nil, err
	}
	if o.Invitation = e.invitation(); o.Invitation != nil && o.Invitation.Admission != nil {
		o.Admission = base64.RawURLEncoding.EncodeToString(o.Invitation.Admission)
	}
	return o, o.Settle()
}
