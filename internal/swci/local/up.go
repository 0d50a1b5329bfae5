package local

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// UpConfig is what `local up` was asked for.
type UpConfig struct {
	Peers   int
	SNs     int
	Spire   bool // identities come from SPIRE
	Swarmd  string
	LogDir  string // daemons' logs; empty: they go with the temporary folder
	Package fs.FS  // the swarmlearning package; nil: it is installed
	Verbose bool
	// SWOPs are how many carry out tasks; 0: the SLs wait for programs. They have the peers in their profiles, as evenly as can be, and start
	// them when a task runs; Private is the directory that programs have as PrivateContent.
	SWOPs   int
	Private string
	// Ready is told where the swarm is, before anything is printed; Gone when it ends. Both may be nil.
	Ready func(sns []string, identity, swarmID string) error
	Gone  func()
}

// Up keeps a swarm whose SLs wait for programs until ctx ends. That is its normal end, for which it returns nil; while it
// still starts, the cause. The first line of standard output is `API https://HOST:PORT`; then come, for each peer, the variables for its program.
func Up(ctx context.Context, cfg UpConfig, h Host) error {
	if cfg.Peers < 1 || cfg.Peers > maxPeers || cfg.SNs < 1 || cfg.SNs > maxSNs {
		return exit.New(exit.Usage, "", "--peers must be 1 to %d, --sns 1 to %d", maxPeers, maxSNs)
	}
	if cfg.SWOPs < 0 || cfg.SWOPs > cfg.Peers {
		return exit.New(exit.Usage, "each SWOP starts one peer at least", "--swop must be 1 to %d, the number of --peers", cfg.Peers)
	}
	if info, err := os.Stat(cfg.Private); cfg.SWOPs > 0 && (err != nil || !info.IsDir()) {
		return exit.New(exit.Usage, "name the directory with the program that tasks run", "--private %s: there is no such directory", cfg.Private)
	}
	swarmd, err := FindSwarmd(cfg.Swarmd)
	if err != nil {
		return err
	}
	if _, err := cluster.FindSpire(); cfg.Spire && err != nil {
		return err
	}
	h.TTY = false // nothing is kept up to date in place
	board := NewBoard(h)
	c, err := cluster.New(cluster.Config{
		Swarmd: swarmd, SNs: cfg.SNs, Spire: cfg.Spire, LogDir: cfg.LogDir, Environ: h.Environ,
		OnLine: func(name, line string, _ bool) {
			if cfg.Verbose {
				board.Log(name + " : " + line)
			}
		},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := keepUp(ctx, c, cfg, h); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// keepUp starts the swarm, tells where it is, and blocks until ctx ends or a daemon does.
func keepUp(ctx context.Context, c *cluster.Cluster, cfg UpConfig, h Host) error {
	if err := c.Start(ctx); err != nil {
		return err
	}
	api, closeAPI, err := h.Connect(ctx, c.APIs(), c.Identity())
	if err != nil {
		return fmt.Errorf("connect to own swarm: %w", err)
	}
	err = letOut(ctx, api)
	closeAPI()
	if err != nil {
		return err
	}
	bridges, err := startPeers(ctx, c, cfg)
	if err != nil {
		return err
	}
	var packageDir string
	if cfg.Package != nil {
		packageDir = filepath.Join(c.Dir(), "python")
		if err := os.CopyFS(packageDir, cfg.Package); err != nil {
			return fmt.Errorf("extract the swarmlearning package: %w", err)
		}
	}
	swarmID, err := swarmID(ctx, c, h)
	if err != nil {
		return err
	}
	if cfg.Gone != nil {
		defer cfg.Gone()
	}
	if cfg.Ready != nil {
		if err := cfg.Ready(c.APIs(), c.Identity(), swarmID); err != nil {
			return err
		}
	}
	fmt.Fprintf(h.Stdout, "API https://%s\n", c.APIs()[0])
	for i, dir := range bridges {
		fmt.Fprintln(h.Stdout, launch.Exports(cluster.SLName(i), dir, packageDir))
	}
	if cfg.SWOPs > 0 {
		fmt.Fprint(h.Stderr, saidOfSWOPs(cfg))
		return hold(ctx, c, cfg.Peers)
	}
	fmt.Fprintf(h.Stderr, "swarm is up; start a program for each peer with its variables (peers: %d, so minPeers is at most that); swarmctl list nodes shows the swarm; end with Ctrl-C\n", cfg.Peers)
	return hold(ctx, c, cfg.Peers)
}

// saidOfSWOPs tells what the swarm waits for, and what makes it work.
func saidOfSWOPs(cfg UpConfig) string {
	const to = cluster.Taskrunner
	return fmt.Sprintf("swarm is up; tasks of %s are carried out by %s, with %s in all; a task's PrivateContent is %s; end with Ctrl-C\n", to, counted(cfg.SWOPs, "SWOP"), counted(cfg.Peers, "peer"), cfg.Private) +
		"next: swarmctl create task from FILE, swarmctl finalize task NAME, swarmctl assign task NAME to " + to + " with all peers; swarmctl get logs NAME shows what it prints\n"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// startPeers starts the SLs, and returns the folders in which their programs find them; or the SWOPs that are to start SLs, and no folders.
func startPeers(ctx context.Context, c *cluster.Cluster, cfg UpConfig) (bridges []string, err error) {
	if cfg.SWOPs > 0 {
		return nil, startSWOPs(ctx, c, cfg)
	}
	var procs []*cluster.Proc
	for i := range cfg.Peers {
		p, err := c.StartSL(cluster.SLSpec{Index: i, Expected: cfg.Peers})
		if err != nil {
			return nil, err
		}
		procs = append(procs, p)
	}
	bridges = make([]string, cfg.Peers)
	for i, p := range procs {
		if bridges[i], err = c.AwaitBridge(ctx, i, p); err != nil {
			return nil, err
		}
	}
	return bridges, nil
}

// startSWOPs returns when all SWOPs take tasks.
func startSWOPs(ctx context.Context, c *cluster.Cluster, cfg UpConfig) error {
	private, err := filepath.Abs(cfg.Private)
	if err != nil {
		return err
	}
	for i := range cfg.SWOPs {
		peers := cfg.Peers / cfg.SWOPs
		if i < cfg.Peers%cfg.SWOPs {
			peers++
		}
		if err := c.StartSWOP(ctx, cluster.SWOPSpec{Index: i, Peers: peers, Private: private}); err != nil {
			return err
		}
	}
	return nil
}

// hold blocks until ctx ends, or a daemon does that should not: an SN or the authority, or the last SL.
func hold(ctx context.Context, c *cluster.Cluster, peers int) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-c.Exits():
			if e.Code != 0 || !strings.HasPrefix(e.Name, "sl-") {
				return cluster.Failure(e)
			}
			if peers--; peers == 0 {
				return nil
			}
		}
	}
}

func swarmID(ctx context.Context, c *cluster.Cluster, h Host) (string, error) {
	api, closeAPI, err := h.Connect(ctx, c.APIs(), c.Identity())
	if err != nil {
		return "", fmt.Errorf("connect to own swarm: %w", err)
	}
	defer closeAPI()
	res, err := api.GetSwarm(ctx)
	if err != nil {
		return "", fmt.Errorf("ask own swarm for its ID: %w", err)
	}
	return res.GetSwarmId(), nil
}
