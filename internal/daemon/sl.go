package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/node"
)

func slCommand(e Env) *cli.Command {
	flags := append(commonFlags(),
		stringFlag("sn-ip", "host of the SN that this node registers with (required)"),
		portFlag("sn-api-port", 30304, "API port of that SN"),
		portFlag("sl-fs-port", 30305, "port of this node's file server, through which models are merged"),
		stringFlag("data-dir", "directory with the data; the program finds it as DATA_DIR"),
		stringFlag("model-dir", "directory with the program, its working directory; MODEL_DIR"),
		stringFlag("model-program", "the program to run, in the model directory (required unless --attach)"),
		stringFlag("sl-platform", "PYT or TF (default TF)"),
		stringFlag("python", "interpreter that runs the program (default: the first python3 that imports the platform's framework)"),
		stringFlag("gpu", "GPUs that the program sees: 0,2 or all"),
		&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "K=V for the program (repeatable)"},
		&cli.BoolFlag{Name: "attach", Usage: "run no program: wait for one that is started by hand with the printed variables"},
		stringFlag("bridge-dir", "where the program's socket and weight files are made (default /dev/shm/swarmd)"),
		&cli.IntFlag{Name: "expected-peers", Usage: "start the first round as soon as so many peers are ready"},
		&cli.DurationFlag{Name: "linger", Value: 10 * time.Minute, Usage: "serve the final model to others for so long at most"},
		&cli.DurationFlag{Name: "session-timeout", Usage: "stop a program that has opened no session by then (default: never)"},
	)
	return described(agentHelp, command("run-sl", "run a Swarm Learning node and its ML program", flags, func(c *cli.Context) error {
		cfg, err := slConfig(c, e)
		if err != nil {
			return err
		}
		code, err := node.RunSL(c.Context, cfg)
		if err != nil || code != 0 {
			return &ExitError{Code: max(code, 1), Err: err}
		}
		return nil
	}))
}

func slConfig(c *cli.Context, e Env) (node.SLConfig, error) {
	base, err := common(c, e, "sl", "swarm.SL", c.Int("sl-fs-port"))
	if err != nil {
		return node.SLConfig{}, err
	}
	if c.String("sn-ip") == "" {
		return node.SLConfig{}, errors.New("mandatory parameter --sn-ip not specified; give the address of an SN")
	}
	if c.String("model-program") == "" && !c.Bool("attach") {
		return node.SLConfig{}, errors.New("mandatory parameter --model-program not specified; name the program in --model-dir, or give --attach to start one by hand")
	}
	platform := strings.ToUpper(c.String("sl-platform"))
	switch platform {
	case "":
		platform = "TF"
	case "PYT", "TF":
	default:
		return node.SLConfig{}, fmt.Errorf("--sl-platform %s: unsupported platform; want PYT or TF", c.String("sl-platform"))
	}
	for _, kv := range c.StringSlice("env") {
		if !strings.Contains(kv, "=") {
			return node.SLConfig{}, fmt.Errorf("--env %s: want K=V", kv)
		}
	}
	environ := c.StringSlice("env")
	if gpu := c.String("gpu"); gpu != "" {
		environ = append(gpuEnv(gpu), environ...)
	}
	cfg := node.SLConfig{
		Common: base, SNHost: c.String("sn-ip"), SNAPIPort: c.Int("sn-api-port"), FSPort: c.Int("sl-fs-port"),
		DataDir: c.String("data-dir"), ModelDir: c.String("model-dir"), Program: c.String("model-program"), Platform: platform,
		Python: c.String("python"), Env: environ, Attach: c.Bool("attach"), BridgeDir: c.String("bridge-dir"),
		ExpectedPeers: c.Int("expected-peers"), Linger: c.Duration("linger"), SessionTimeout: c.Duration("session-timeout"), Stdout: e.Stdout, Getenv: e.Getenv,
	}
	if cfg.BridgeDir == "" {
		cfg.BridgeDir = filepath.Join("/dev/shm/swarmd", cfg.Name)
		if os.Geteuid() != 0 {
			cfg.BridgeDir = filepath.Join(fmt.Sprintf("/dev/shm/swarmd-%d", os.Geteuid()), cfg.Name)
		}
	}
	return cfg, nil
}

// gpuEnv is how a process without a container is told its GPUs.
func gpuEnv(gpu string) []string {
	if strings.EqualFold(gpu, "all") {
		return []string{"NVIDIA_VISIBLE_DEVICES=all"}
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + gpu, "NVIDIA_VISIBLE_DEVICES=" + gpu}
}

// quorumWait is the flag, else the original's variable, else 0 for the default.
func quorumWait(c *cli.Context) time.Duration {
	if d := c.Duration("full-quorum-wait"); d > 0 {
		return d
	}
	return time.Duration(c.Int("full-quorum-seconds")) * time.Second
}
