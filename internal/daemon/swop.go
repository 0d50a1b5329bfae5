package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/swop/tasktypes"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work/gpus"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/ownimage"
	"github.com/swarmd/swarmd/internal/work/secret"
	"github.com/swarmd/swarmd/node"
)

// localVariable is one that nodes of a swarm of `swarmctl local` have.
const localVariable = "SWARM_LOCAL_ID"

func swopCommand(e Env) *cli.Command {
	flags := append(commonFlags(), envFlag("K=V in the container's environment, with --runtime docker (repeatable)"),
		stringFlag("usr-dir", "directory with the profile (required)"),
		stringFlag("profile-file-name", "name of the profile in --usr-dir: whose tasks this host carries out, and which SLs they start (required)"),
		stringFlag("policy", "FILE that says whose tasks this host carries out, or ask: its owner is asked about each (default: as policyuri in the profile says)"),
		stringFlag(secret.Option, "directory with a file for each secret that jobs may have, by its name, which no other user reads; the policy says who has which"),
		&cli.StringSliceFlag{Name: "sn-ip", EnvVars: env("sn-ip"), Usage: "HOST[:PORT] of an SN, unless the profile names one; repeatable, or several with commas between"},
		stringFlag("sn-api-service", "FQDN[:PORT] (port 443 if there is none) of an SN's API behind a proxy, beside or instead of --sn-ip"),
		portFlag("sn-api-port", start.APIPort, "API port of those SNs where --sn-ip names none"),
		&cli.IntFlag{Name: "swop-fs-port", Value: int(start.SWOPFSPort), EnvVars: env("swop-fs-port"), Usage: "port of this node's file server, where operators fetch logs; 0: none (without this option the default, unless that is in use)"},
		stringFlag("docker-socket-file", "socket of the container engine that carries tasks out (default: as DOCKER_HOST says)"),
		stringFlag("docker-group-id", "number of the group that may use that socket, with --swop-uid"),
		stringFlag("swop-uid", "number of the user in the SWOP's container (default: root, which the engine's socket takes)"),
		stringFlag("ml-runtime", "what RUN_SWARM starts: docker: SLs and programs in containers; process: on this host, without an engine (default: as --runtime)"),
		&cli.StringSliceFlag{Name: "host-label", EnvVars: env("host-label"), Usage: "KEY=VALUE that the swarm shows of this host beside its CPUs, memory and GPUs, such as site=a (repeatable)"},
		&cli.DurationFlag{Name: "prepare-timeout", Value: time.Duration(start.DefaultPrepare), Usage: "end a task that is not prepared, or whose image is not fetched, within this time; 0: never", EnvVars: env("prepare-timeout")},
		&cli.DurationFlag{Name: sessionFlag, Value: time.Duration(start.DefaultSession), Usage: "end a task whose program has opened no session with its SL within this time; 0: never", EnvVars: env(sessionFlag)},
		&cli.BoolFlag{Name: "keep-containers", Usage: "leave the containers of tasks when they end, for a look at them", EnvVars: env("keep-containers")},
	)
	return described(agentHelp, command("run-swop", "run a SWOP: carry out tasks on this host", flags, func(c *cli.Context) error {
		o, cfg, err := swopNode(c, e)
		if err != nil {
			return err
		}
		if inContainer(c) {
			return swopInContainer(c, e, o)
		}
		if o.Cert != "" {
			if err := tryFiles(c.Context, cfg.Common, identity.RoleSWOP); err != nil {
				return err
			}
		}
		defer registerProcess(e, naming.RoleSWOP, cfg.Name, "", cfg.StateDir, cfg.Log)()
		_, err = node.New(cfg, node.Deps{}).Run(c.Context)
		return err
	}))
}

func swopInContainer(c *cli.Context, e Env, o *start.SWOP) error {
	if _, err := o.Component(startEnv(e)); err != nil {
		return err // before sudo asks for a password
	}
	e.Getenv = o.Getenv(e.Getenv)
	return runComponent(c, e, func(ctx context.Context, eng *engine.Engine, user component.IO) (int, error) {
		return o.Run(ctx, eng, startEnv(e), user)
	})
}

// readSWOP reads the options of run-swop.
func readSWOP(c *cli.Context, e Env) (*start.SWOP, error) {
	o := new(start.SWOP)
	if err := read(c, o); err != nil {
		return o, err
	}
	o.Invitation = e.invitation()
	return o, o.Settle()
}

// swopNode checks what the options mean to the node, in both runtimes, with what the profile says, and is its configuration in this process.
func swopNode(c *cli.Context, e Env) (*start.SWOP, node.SWOPConfig, error) {
	o, err := readSWOP(c, e)
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return o, node.SWOPConfig{}, err
	}
	base, wrong := commonProblems(c, e, &o.Node, identity.RoleSWOP, 0)
	profile, odds, err := o.ReadProfile()
	if wrong.add(err) {
		wrong.add(o.Locate(profile.API.Host, profile.API.Service, start.Port(profile.API.Port)), o.CheckSNs())
	}
	sns, err := namedSNs(o.SNs, o.APIPort)
	wrong.add(err)
	for _, odd := range odds {
		base.Log.Warn("the profile is read as it is meant; swarmctl lint profile says more", "finding", odd.Error())
	}
	own, err := start.Runtime("runtime", c.String("runtime"), start.Process)
	wrong.add(err)
	ml, err := start.Runtime("ml-runtime", o.MLRuntime, own)
	wrong.add(err, secret.Dir(o.SecretsDir).Check())
	if own == start.Docker {
		wrong.add(identified(o, profile))
	}
	runtime := start.Process
	if e.Getenv(start.InContainer) != "" {
		runtime = start.Docker
	}
	var offer task.Offer
	if len(wrong) == 0 {
		offer, err = swop.OfferOf(task.Offer{Taskrunner: profile.Taskrunner, Group: profile.GroupName, Jobs: ml, GPUs: uint32(len(gpus.Seen(os.LookupEnv)))}, profile.Peers(), o.Labels)
		wrong.add(err)
	}
	if len(wrong) > 0 {
		return o, node.SWOPConfig{}, wrong.first()
	}
	swarmd, err := os.Executable()
	if err != nil {
		return o, node.SWOPConfig{}, fmt.Errorf("find swarmd, which SLs run: %w", err)
	}
	dir, err := filepath.Abs(filepath.Join(base.StateDir, "tasks")) // SLs have working directories of their own
	if err != nil {
		return o, node.SWOPConfig{}, err
	}
	image := ownimage.New(o.Container.ImageName(o.Getenv(e.Getenv)), base.Log)
	paths := hostPaths(o, e, base.Name, ml, image)
	_, afar := paths.(*hostpaths.Engine)
	secrets, err := secretsOf(o)
	if err != nil {
		return o, node.SWOPConfig{}, err
	}
	policyFile, err := swop.PolicyFile(o.Policy, profile.PolicyURI, o.UsrDir)
	if err != nil {
		return o, node.SWOPConfig{}, err
	}
	place := swop.Place{
		Secrets: secrets, Process: ml == start.Process, Afar: afar, Local: e.Getenv(localVariable) != "", Profile: profile, Paths: paths, Own: o.Own(e.Getenv, base.StateDir, o.ProfilePath(), policyFile, o.AgentDir(e.Getenv, base.StateDir)),
	}
	types := &tasktypes.Config{
		Options: o, Getenv: e.Getenv, Name: base.Name, StateDir: base.StateDir, Profile: profile, SNs: sns, Own: image, Paths: paths, Swarmd: swarmd, Dir: dir,
		Process: ml == start.Process, Secrets: secrets, Log: base.Log,
	}
	offer.DiskBytes = types.Disk(c.Context)
	return o, node.SWOPConfig{
		Common: base, SNs: sns, Runtime: runtime, Place: place,
		Offer: offer, Files: swop.FilePort{Number: int(o.FSPort.Or(start.SWOPFSPort)), Named: o.FSPort != nil},
		Policy: func(domain string) (*policy.Policy, error) {
			return swop.PolicyOf(o.Policy, profile.PolicyURI, o.UsrDir, domain)
		},
		Types: types.All,
	}, nil
}

// secretsOf is the folder of a host's secrets. Keepers of members' processes read it too, which have working directories of their own.
func secretsOf(o *start.SWOP) (secret.Dir, error) {
	if o.SecretsDir == "" {
		return "", nil
	}
	dir, err := filepath.Abs(o.SecretsDir)
	return secret.Dir(dir), err
}

// hostPaths sees the host on which tasks run: this one, or that of the engine.
func hostPaths(o *start.SWOP, e Env, node, ml string, own *ownimage.Image) hostpaths.Resolver {
	getenv := o.Getenv(e.Getenv)
	address := getenv("DOCKER_HOST")
	if ml == start.Process {
		return hostpaths.NewHere()
	}
	far := &hostpaths.Engine{
		Open:  func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, address) },
		Image: own.ID, Program: "swarmd", Node: node, Scope: engine.Scope(e.Getenv),
	}
	if e.Getenv(start.InContainer) == "" && (address == "" || strings.HasPrefix(address, "unix://")) {
		return hostpaths.Second{First: hostpaths.NewHere(), Other: far}
	}
	return far
}

// identified finds SLs that would get no identity from a SWOP in a container: an agent there attests no process of another container, and what it
// has joined by can be used once.
func identified(o *start.SWOP, p *taskfile.Profile) error {
	if p == nil || tasktypes.MakesTokens(&o.Node) {
		return nil
	}
	for i := range p.Nodes {
		if len(p.Nodes[i].Identity) == 0 {
			return fmt.Errorf("node %d of the profile has no identity, and the SWOP's can't be shared from a container: leave the SWOP a process with --runtime process --ml-runtime docker, or name the SL's under identity", p.Nodes[i].Index)
		}
	}
	return nil
}
