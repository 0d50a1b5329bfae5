package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/node"
)

func slCommand(e Env) *cli.Command {
	flags := append(slices.Concat(commonFlags(), mlFlags()),
		&cli.StringSliceFlag{Name: "sn-ip", EnvVars: env("sn-ip"), Usage: "HOST[:PORT] of an SN that this node registers with; repeatable, or several with commas between: any one of them may be down (required)"},
		stringFlag("sn-api-service", "FQDN[:PORT] (port 443 if there is none) of an SN's API behind a proxy, beside or instead of --sn-ip"),
		stringFlag("sl-fs-service", "FQDN[:PORT] under which other SLs reach this node through a proxy, instead of --host-ip"),
		portFlag("sn-api-port", start.APIPort, "API port of those SNs where --sn-ip names none"),
		portFlag("sl-fs-port", start.FSPort, "port of this node's file server, through which models are merged"),
		stringFlag("data-dir", "directory with the data; the program finds it as DATA_DIR"),
		stringFlag("model-dir", "directory with the program, its working directory; MODEL_DIR (default: with --invite the current one, in a container that of --model-program)"),
		stringFlag("model-program", "the program to run, in the model directory (required unless --attach, --ml-cmd or --ml-entrypoint)"),
		stringFlag("model-program-args", "arguments of --model-program, divided as a shell does, such as \"--lr 0.1\"; no shell sees them"),
		stringFlag("sl-platform", "PYT or TF (default TF)"),
		stringFlag("python", "interpreter that runs the program as a process (default: the first python3 that imports the platform's framework)"),
		stringFlag("gpu", "GPUs that the program sees: 0,2 or all"),
		envFlag("K=V, a variable for the program, and for the node's container if there is one (repeatable)"),
		&cli.BoolFlag{Name: "attach", Usage: "start no program: print the variables for one that you start by hand, and wait for it"},
		stringFlag("bridge-dir", "where the program's socket and weight files are made (default /dev/shm/swarmd/<name>)"),
		stringFlag("max-model", "largest model that the program may declare, such as 512m or 8g (default: three quarters of what is free)"),
		logsToFlag(),
		&cli.StringSliceFlag{Name: "allow-peer", EnvVars: env("allow-peer"), Usage: "merge only with SLs of these SPIFFE IDs, such as spiffe://b.example/swarm/sl/* (repeatable; default: every SL of an accepted trust domain)"},
		&cli.IntFlag{Name: "expected-peers", Usage: "start the first round as soon as N peers are ready"},
		stringFlag(checkinFlag, "what a program contributes after its training's end if it does not choose (checkinModelOnTrainEnd): snapshot, active, inactive or once (default snapshot; a rule of the contract wins)"),
		stringFlag("part", "HOST/ASSIGNMENT/EPOCH/MEMBER: the part of a task that a SWOP has started this node for; when the swarm has not wanted it for a minute the node ends"),
	)
	flags = slices.Concat(flags, rankFlags(), timeoutFlags())
	return described(agentHelp, command("run-sl", "run a Swarm Learning node and its ML program", flags, func(c *cli.Context) error {
		if inContainer(c) {
			return slInContainer(c, e)
		}
		if c.String("part") != "" {
			return launch.ForTask(slHere(c, e))
		}
		return slHere(c, e)
	}))
}

// slHere runs an SL in this process.
func slHere(c *cli.Context, e Env) error {
	cfg, err := slConfig(c, e)
	if err != nil {
		return err
	}
	if c.String("cert") != "" {
		if err := tryFiles(c.Context, cfg.Common, identity.RoleSL); err != nil {
			return err
		}
	}
	defer registerProcess(e, naming.RoleSL, cfg.Name, cfg.Platform, cfg.StateDir, cfg.Log)()
	code, err := cfg.Part.Within(c.Context, node.New(cfg, node.Deps{}).Run)
	if err != nil {
		code = max(code, 1)
	}
	noteExit(e, code, cfg.Log)
	if code != 0 {
		return &ExitError{Code: code, Err: err}
	}
	return nil
}

// noteExit notes the exit code where whoever started this SL asks for it.
func noteExit(e Env, code int, log *slog.Logger) {
	file := e.Getenv(start.ExitFile)
	if file == "" {
		return
	}
	if err := atomicfile.Replace(file, []byte(strconv.Itoa(code)), 0o600); err != nil {
		log.Warn("could not note the exit code", "err", err)
	}
}

// slConfig is the node's configuration in this process.
func slConfig(c *cli.Context, e Env) (node.SLConfig, error) {
	o, err := readSL(c, e)
	if err != nil {
		return node.SLConfig{}, err
	}
	return slNode(c, e, o)
}

// slNode checks what the options mean to the node, in both runtimes, and is its configuration in this process. The error is the first of
// slProblems.
func slNode(c *cli.Context, e Env, o *start.SL) (node.SLConfig, error) {
	cfg, wrong := slProblems(c, e, o)
	return cfg, wrong.first()
}

// slProblems is slNode with all that is wrong.
func slProblems(c *cli.Context, e Env, o *start.SL) (node.SLConfig, problems) {
	base, wrong := commonProblems(c, e, &o.Node, identity.RoleSL, o.FSPort.Or(start.FSPort))
	if (inContainer(c) || e.Getenv(start.InContainer) != "") && !wrong.add(start.CheckRanksPlace(o)) {
		o = new(*o) // what else is wrong with its ranks is no matter there, and no remedy for one is to lead to another
		o.RankOptions = start.RankOptions{}
	}
	ml, err := mlRuntime(c, o)
	if wrong.add(err) {
		wrong.add(o.Problems(ml)...)
	}
	sns, err := namedSNs(o.SNs, o.APIPort)
	wrong.add(err)
	platform, err := o.PlatformName()
	wrong.add(err)
	client, err := launch.ParseClient(o.ML.Client)
	wrong.add(err)
	cfg := node.SLConfig{
		Common: base, SNs: sns, FSPort: int(o.FSPort.Or(start.FSPort)), MaxModel: int64(o.MaxModel), ExpectedPeers: o.ExpectedPeers, Part: peering.NewPart(o.Part, base.Log),
		Spec: runner.Spec{
			DataDir: o.DataDir, ModelDir: o.ModelDir, Program: o.Program, Args: o.Args, Platform: platform, Python: o.Python, Attach: o.Attach, Client: client,
			Contained: e.Getenv(start.InContainer) != "", BridgeDir: o.BridgePath(e.Getenv, os.Geteuid() == 0 || inContainer(c)),
			Linger: time.Duration(start.DefaultLinger), SessionTimeout: time.Duration(o.SessionTimeout), Stdout: e.Stdout, Getenv: e.Getenv,
		},
	}
	if o.FSService != "" && len(wrong) == 0 {
		base.Log.Info(passThrough, "host", o.Host, "ports", []start.Port{o.FSPort.Or(start.FSPort)})
	}
	if o.Linger != nil {
		cfg.Linger = time.Duration(*o.Linger)
	}
	cfg.LogsTo = o.LogsTo
	cfg.AllowPeers, err = allowedPeers(o)
	wrong.add(err)
	cfg.Timeouts, err = timeouts(o)
	wrong.add(err)
	cfg.CheckinDefault, err = checkinDefault(o)
	wrong.add(err)
	if ml == start.Process {
		cfg.Env = o.ProcessEnv()
		cfg.Ranks, err = slRanks(c.Context, o, &cfg)
		wrong.add(err)
		wrong.add(noMLContainer(c, e))
		return cfg, wrong
	}
	if c.IsSet("python") && e.Getenv(env("python")[0]) == "" {
		wrong.add(errors.New("--python is for a program that runs as a process and this is --ml-runtime docker: leave it out, or say with --ml-entrypoint what the image runs"))
	}
	if !cfg.Attach && len(wrong) == 0 && wrong.add(withMLContainer(o, e, &cfg)) {
		cfg.Ranks, err = slRanks(c.Context, o, &cfg)
		wrong.add(err)
	}
	return cfg, wrong
}

// withMLContainer describes the ML program's container to the node. In a component's container this process sees the model directory
// and the spilled weight files elsewhere than the engine, whose paths are the host's.
func withMLContainer(o *start.SL, e Env, cfg *node.SLConfig) error {
	ml, err := o.MLContainer(startEnv(e))
	if err != nil {
		return err
	}
	cfg.ML, cfg.Env = ml, ml.Env
	cfg.DataDir, cfg.ModelDir, cfg.Program = ml.DataDir, ml.ModelDir, ml.Program
	if o.Platform == "" && (ml.Entrypoint != nil || ml.Cmd != nil) {
		cfg.Platform = "" // what an image runs by a command of its own needs the framework that its author knows
	}
	if e.Getenv(start.InContainer) != "" {
		cfg.SpillDir, cfg.DataDir, cfg.ModelDir = engine.SpillDir, start.Inside(ml.DataDir, engine.DataDir), start.Inside(ml.ModelDir, engine.ModelDir)
	}
	return nil
}

// slSpec is the component of an SL.
func slSpec(c *cli.Context, e Env) (component.Spec, error) {
	o, err := readSL(c, e)
	if err == nil {
		_, err = slNode(c, e, o)
	}
	if err != nil {
		return component.Spec{}, err
	}
	return o.Component(startEnv(e))
}

func slInContainer(c *cli.Context, e Env) error {
	if _, err := slSpec(c, e); err != nil {
		return err // before sudo asks for a password
	}
	o, err := readSL(c, e)
	if err != nil {
		return err
	}
	return runComponent(c, e, func(ctx context.Context, eng *engine.Engine, user component.IO) (int, error) {
		return o.Run(ctx, eng, startEnv(e), user)
	})
}

// namedSNs reads --sn-ip. Commas separate SNs too, as a variable of the environment has one value.
func namedSNs(all []string, port start.Port) ([]string, error) {
	var sns []string
	for _, given := range all {
		for sn := range strings.SplitSeq(given, ",") {
			if sn = strings.TrimSpace(sn); sn == "" {
				continue
			}
			addr, err := address.API(sn, int(port.Or(start.APIPort)))
			if err != nil {
				return nil, err
			}
			sns = append(sns, addr)
		}
	}
	return sns, nil
}

// allowedPeers reads --allow-peer. A pattern that no SL can have is a mistake, which would let nobody take part.
func allowedPeers(o *start.SL) (pattern.List, error) {
	list, err := pattern.ParseList(o.AllowPeers)
	if err != nil {
		return nil, fmt.Errorf("--allow-peer: %w", err)
	}
	for _, p := range list {
		if !p.Under("swarm", string(identity.RoleSL)) {
			return nil, fmt.Errorf("--allow-peer %s: no SL has such a SPIFFE ID: write spiffe://DOMAIN/swarm/sl/NAME, with * for any name", p)
		}
	}
	return list, nil
}

const checkinFlag = "checkin-default"

// checkinDefault reads --checkin-default; empty: there is none.
func checkinDefault(o *start.SL) (string, error) {
	mode := strings.ToLower(o.CheckinDefault)
	if mode != "" && !state.ValidCheckin(mode) {
		return "", fmt.Errorf("--%s %s: want snapshot, active, inactive or once", checkinFlag, o.CheckinDefault)
	}
	return mode, nil
}

// mlRuntime is --ml-runtime, by default as --runtime.
func mlRuntime(c *cli.Context, o *start.SL) (string, error) {
	own, err := start.Runtime("runtime", c.String("runtime"), start.Process)
	if err != nil {
		return "", err
	}
	return o.MLRuntime(own)
}
