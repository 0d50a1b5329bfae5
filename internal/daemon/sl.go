package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/node"
)

func slCommand(e Env) *cli.Command {
	flags := append(slices.Concat(commonFlags(), mlFlags()),
		&cli.StringSliceFlag{Name: "sn-ip", EnvVars: env("sn-ip"), Usage: "HOST[:PORT] of an SN that this node registers with; repeatable, or several with commas between: any one of them may be down (required)"},
		portFlag("sn-api-port", 30304, "API port of those SNs where --sn-ip names none"),
		portFlag("sl-fs-port", 30305, "port of this node's file server, through which models are merged"),
		stringFlag("data-dir", "directory with the data; the program finds it as DATA_DIR"),
		stringFlag("model-dir", "directory with the program, its working directory; MODEL_DIR"),
		stringFlag("model-program", "the program to run, in the model directory (required unless --attach, --ml-cmd or --ml-entrypoint)"),
		stringFlag("sl-platform", "PYT or TF (default TF)"),
		stringFlag("python", "interpreter that runs the program as a process (default: the first python3 that imports the platform's framework)"),
		stringFlag("gpu", "GPUs that the program sees: 0,2 or all"),
		envFlag("K=V for the program, and in the container's environment if there is one (repeatable)"),
		&cli.BoolFlag{Name: "attach", Usage: "run no program: wait for one that is started by hand with the printed variables"},
		stringFlag("bridge-dir", "where the program's socket and weight files are made (default /dev/shm/swarmd/<name>)"),
		stringFlag("max-model", "largest model that the program may declare, such as 512m or 8g (default: three quarters of what is free)"),
		&cli.StringSliceFlag{Name: "allow-peer", EnvVars: env("allow-peer"), Usage: "take part in merges with SLs of these SPIFFE IDs only, such as spiffe://b.example/swarm/sl/* (repeatable; default: every SL of an accepted trust domain)"},
		&cli.IntFlag{Name: "expected-peers", Usage: "start the first round as soon as so many peers are ready"},
	)
	flags = append(flags, patienceFlags()...)
	return described(agentHelp, command("run-sl", "run a Swarm Learning node and its ML program", flags, func(c *cli.Context) error {
		cfg, err := slConfig(c, e)
		if err != nil {
			return err
		}
		if inContainer(c) {
			return runComponent(c, e, slSpec, mlCheck(cfg))
		}
		if c.String("cert") != "" {
			if err := tryFiles(c.Context, cfg.Common, identity.RoleSL); err != nil {
				return err
			}
		}
		defer registered(e, engine.RoleSL, cfg.Name, cfg.Platform, cfg.StateDir, cfg.Log)()
		code, err := node.RunSL(c.Context, cfg)
		if err != nil || code != 0 {
			return &ExitError{Code: max(code, 1), Err: err}
		}
		return nil
	}))
}

// slConfig checks what the options mean to the node, in both runtimes, and is the node's configuration in this process.
func slConfig(c *cli.Context, e Env) (node.SLConfig, error) {
	base, err := common(c, e, "sl", "swarm.SL", c.Int("sl-fs-port"))
	if err != nil {
		return node.SLConfig{}, err
	}
	sns, err := namedSNs(c)
	if err != nil {
		return node.SLConfig{}, err
	}
	platform, err := platformOf(c)
	if err != nil {
		return node.SLConfig{}, err
	}
	if err := errors.Join(checkEnv("env", keyValues(c, e, "env")), checkEnv("ml-e", keyValues(c, e, "ml-e"))); err != nil {
		return node.SLConfig{}, err
	}
	gpu, err := gpus(c.String("gpu"))
	if err != nil {
		return node.SLConfig{}, err
	}
	cfg := node.SLConfig{
		Common: base, SNs: sns, FSPort: c.Int("sl-fs-port"),
		DataDir: c.String("data-dir"), ModelDir: c.String("model-dir"), Program: c.String("model-program"), Platform: platform,
		Python: c.String("python"), Attach: c.Bool("attach"), BridgeDir: c.String("bridge-dir"),
		ExpectedPeers: c.Int("expected-peers"), Linger: c.Duration("linger"), SessionTimeout: c.Duration("session-timeout"), Stdout: e.Stdout, Getenv: e.Getenv,
	}
	if cfg.MaxModel, err = sizeOf(c, "max-model"); err != nil {
		return node.SLConfig{}, err
	}
	if cfg.AllowPeers, err = allowedPeers(c); err != nil {
		return node.SLConfig{}, err
	}
	if cfg.Patience, err = patience(c, e); err != nil {
		return node.SLConfig{}, err
	}
	if cfg.BridgeDir == "" {
		cfg.BridgeDir = bridgeDir(e, cfg.Name, os.Geteuid() == 0 || inContainer(c))
	}
	ml, err := mlRuntime(c)
	if err != nil {
		return cfg, err
	}
	if cfg.Program == "" && !cfg.Attach && (ml == runtimeProcess || !ownCommand(c)) {
		return cfg, errors.New("mandatory parameter --model-program not specified; name the program in --model-dir, or give --attach to start one by hand")
	}
	if ml == runtimeProcess {
		cfg.Env = slices.Concat(gpuEnv(gpu), keyValues(c, e, "env"), keyValues(c, e, "ml-e"))
		return cfg, noMLContainer(c, e)
	}
	if c.IsSet("python") && e.Getenv(env("python")[0]) == "" {
		return cfg, errors.New("--python is for a program that runs as a process and this is --ml-runtime docker: leave it out, or say with --ml-entrypoint what the image runs")
	}
	if cfg.Attach {
		return cfg, nil
	}
	err = withMLContainer(c, e, &cfg)
	return cfg, err
}

// namedSNs reads --sn-ip. Commas separate SNs too, as a variable of the environment has one value.
func namedSNs(c *cli.Context) ([]string, error) {
	var sns []string
	for _, given := range c.StringSlice("sn-ip") {
		for sn := range strings.SplitSeq(given, ",") {
			if sn = strings.TrimSpace(sn); sn == "" {
				continue
			}
			addr, err := node.SNAddress(sn, c.Int("sn-api-port"))
			if err != nil {
				return nil, err
			}
			sns = append(sns, addr)
		}
	}
	if len(sns) == 0 {
		return nil, errors.New("mandatory parameter --sn-ip not specified; give the address of an SN")
	}
	return sns, nil
}

// allowedPeers reads --allow-peer. A pattern that no SL can have is a mistake, which would let nobody take part.
func allowedPeers(c *cli.Context) (pattern.List, error) {
	list, err := pattern.ParseList(c.StringSlice("allow-peer"))
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

// bridgeDir is where a node's bridge is unless told otherwise. Scopes must not share it, as they may have nodes of one name.
func bridgeDir(e Env, node string, root bool) string {
	home := "/dev/shm/swarmd"
	if !root {
		home = fmt.Sprintf("/dev/shm/swarmd-%d", os.Geteuid())
	}
	if scope := engine.Scope(e.Getenv); scope != engine.DefaultScope {
		node += "@" + scope
	}
	return filepath.Join(home, node)
}

// mlRuntime is --ml-runtime, by default as --runtime.
func mlRuntime(c *cli.Context) (string, error) {
	own, err := runtimeOf(c, "runtime", runtimeProcess)
	if err != nil {
		return "", err
	}
	return runtimeOf(c, "ml-runtime", own)
}

// gpuEnv is how a process without a container is told its GPUs.
func gpuEnv(gpu string) []string {
	switch gpu {
	case "":
		return nil
	case "all":
		return []string{"NVIDIA_VISIBLE_DEVICES=all"}
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + gpu, "NVIDIA_VISIBLE_DEVICES=" + gpu}
}
