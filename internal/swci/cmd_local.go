package swci

import (
	"context"
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/local"
	"github.com/swarmd/swarmd/internal/terminal"
)

// localContext is the context that `local up` keeps.
const localContext = "local"

// localIdentity is the paragraph on --identity of the local commands.
const localIdentity = "Identities come from the embedded authority. With --identity spire a SPIRE server and agent are started first (make spire builds them) and every node has its identity from them."

// onSpire reports whether a local swarm is to have its identities from SPIRE.
func onSpire(opts *cli.Context) (bool, error) {
	switch kind := opts.String("identity"); kind {
	case "spire":
		return true, nil
	case "", "embedded":
		return false, nil
	default:
		return false, exit.New(exit.Usage, "a local swarm brings its own: use embedded or spire", "--identity %s is not for a local swarm", kind)
	}
}

func localCommands() []*Command {
	return []*Command{
		{
			Pattern: "local run", Group: "This host",
			Summary: "Train a program in a whole swarm on this machine",
			Details: "Brings up a whole swarm on this machine (free ports, state in a temporary folder), runs the program once for each peer, shows its output and progress, and takes everything down again at the end, on failure and on Ctrl-C.\n\n" +
				"The model directory is copied to OUT/sl-0, OUT/sl-1, …; that is each peer's MODEL_DIR and working directory, where its models stay. In --data-dir, --model-program-args and the values of -e, {peer} becomes the peer's index from 0, {peer1} its index from 1, and {name} its node's name, sl-0 and so on. The program also finds MIN_PEERS.\n\n" +
				"At the end a table shows each peer's accuracy and model; OUT/summary.json holds the same, OUT/report.html the curves and rounds, OUT/logs the daemons' logs; a run that fails or is stopped leaves what there was by then. What an earlier run left in OUT is moved aside first, to OUT.1, OUT.2 and so on. With --baseline every peer's program is trained alone too, for comparison. docs/reference/local.md has the details.\n\n" +
				"With --runtime docker every program runs in a container of its own, without network and with nothing of this host but its data (read-only) and its model directory; SNs and SLs stay processes unless --containers is given. No container is left afterwards.\n\n" +
				localIdentity + "\n\n" +
				"Exit code 1 means that a program failed or that the final models differ, 8 that --timeout passed, 130 that you stopped it, and 9 that all was trained, but with warnings: a model that nothing has changed, hooks that were never called, a peer without data, one data folder for all. With --strict these are errors, exit code 1.",
			Example: "local run --peers 3 --platform PYT --model-dir examples/digits-pyt --model-program train.py --data-dir 'shards/{peer}' --out out",
			Flags: []cli.Flag{
				&cli.IntFlag{Name: "peers", Value: 3, Usage: "number of peers `N`, each with an SL and a program"},
				&cli.IntFlag{Name: "min-peers", Usage: "least number `N` of peers of a round, for programs that take it from MIN_PEERS; all of them if not given"},
				&cli.IntFlag{Name: "sns", Value: 1, Usage: "number of SNs `N`; three or more survive the loss of one"},
				&cli.StringFlag{Name: "platform", Value: "PYT", Usage: "framework `NAME` of the program: PYT, TF, HF, SKLEARN or NUMPY"},
				&cli.StringFlag{Name: "model-dir", Usage: "folder `DIR` with the program"},
				&cli.StringFlag{Name: "model-program", Usage: "program `FILE` inside the model directory"},
				&cli.StringFlag{Name: argsOption, Usage: "arguments `WORDS` of the program, divided as a shell does, such as \"--lr 0.1\", with the same placeholders as --data-dir"},
				&cli.StringFlag{Name: "data-dir", Usage: "data folder `DIR` of each peer; {peer}, {peer1} and {name} become its own"},
				&cli.StringFlag{Name: "out", Usage: "folder `DIR` for models, logs, summary and report"},
				&cli.StringSliceFlag{Name: "e", Aliases: []string{"env"}, Usage: "variable `NAME=VALUE` for every program, with the same placeholders; repeatable"},
				&cli.StringFlag{Name: "checkin-default", Usage: "what a peer contributes after its training's end if its program does not choose (checkinModelOnTrainEnd): `MODE` is snapshot, active, inactive or once"},
				&cli.BoolFlag{Name: "baseline", Usage: "train every peer alone too, and show both"},
				&cli.DurationFlag{Name: "timeout", Usage: "give up after `TIME`, for example 30m"},
				&cli.StringFlag{Name: "python", Usage: "Python interpreter `FILE`"},
				&cli.StringFlag{Name: "runtime", Value: "process", Usage: "how the programs run: `KIND` process or docker"},
				&cli.BoolFlag{Name: "containers", Usage: "with --runtime docker: run SNs and SLs in containers too"},
				&cli.StringFlag{Name: "ml-image", Usage: "image `NAME` of the programs' containers; that of the platform if not given"},
				&cli.StringFlag{Name: "swarmd", Usage: "swarmd binary `FILE`; the one beside swarmctl or in PATH if not given"},
				&cli.BoolFlag{Name: "dashboard", Usage: "show the swarm in a browser while it trains: prints the address, as swarmctl dashboard does"},
				&cli.BoolFlag{Name: "strict", Usage: "warnings are errors"},
				&cli.BoolFlag{Name: "keep", Usage: "leave the temporary folder with the nodes' state"},
				&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "do not show the programs' output"},
				&cli.BoolFlag{Name: "verbose", Usage: "show the daemons' logs too, and what the programs say of every round"},
			},
			Run: localRun,
		},
		{
			Pattern: "local up", Group: "This host",
			Summary: "Start a swarm on this machine for programs that you start by hand",
			Details: "Brings up a whole swarm on this machine whose SLs wait for a program. The first line on standard output is \"API https://HOST:PORT\"; then follows a line for each peer with the variables that make a program its program.\n\n" +
				"While it runs it is the context local of the same user, which becomes the current one: swarmctl list nodes and the other commands reach it. Ctrl-C or TERM ends it, and leaves nothing behind.\n\n" +
				"With --swop the peers are started by SWOPs, as processes, when a RUN_SWARM task is assigned to the default taskrunner. Its program, a Python file, lies in --private.\n\n" +
				localIdentity,
			Example: "local up --peers 3",
			Flags: []cli.Flag{
				&cli.IntFlag{Name: "peers", Value: 3, Usage: "number of peers `N`"},
				&cli.IntFlag{Name: "sns", Value: 1, Usage: "number of SNs `N`"},
				&cli.IntFlag{Name: "swop", Usage: "start `N` SWOPs, which start the peers when a task is assigned"},
				&cli.StringFlag{Name: "private", Value: ".", Usage: "directory `DIR` that tasks find as PrivateContent, with --swop: with the program, and data"},
				&cli.StringFlag{Name: "swarmd", Usage: "swarmd binary `FILE`; the one beside swarmctl or in PATH if not given"},
				&cli.StringFlag{Name: "log-dir", Usage: "keep the daemons' logs in `DIR`"},
				&cli.BoolFlag{Name: "verbose", Usage: "show the daemons' logs"},
			},
			Run: localUp,
		},
	}
}

// argsOption is the option whose value may begin with a dash, as arguments of a program do.
const argsOption = "model-program-args"

func localRun(ctx context.Context, s *Session, args Args) error {
	o := args.Opts
	var given start.Words
	if err := given.UnmarshalText([]byte(o.String(argsOption))); err != nil {
		return exit.New(exit.Usage, "write them as at a shell's prompt", "--%s: %w", argsOption, err)
	}
	spire, err := onSpire(o)
	if err != nil {
		return err
	}
	checkin, err := checkinMode(o.String("checkin-default"))
	if err != nil {
		return err
	}
	return local.Run(ctx, local.RunConfig{
		Spire: spire, Checkin: checkin,
		Peers: o.Int("peers"), MinPeers: o.Int("min-peers"), SNs: o.Int("sns"),
		Platform: o.String("platform"), ModelDir: o.String("model-dir"), Program: o.String("model-program"), Args: given,
		DataDir: o.String("data-dir"), Out: o.String("out"), Env: o.StringSlice("e"),
		Python: o.String("python"), Runtime: o.String("runtime"), Image: o.String("ml-image"), Nodes: o.Bool("containers"), Swarmd: o.String("swarmd"), Package: pythonPackage(),
		Baseline: o.Bool("baseline"), Keep: o.Bool("keep"), Quiet: o.Bool("quiet"), Verbose: o.Bool("verbose"),
		JSON: s.JSON, Dashboard: o.Bool("dashboard"), Strict: o.Bool("strict"), Timeout: o.Duration("timeout"),
	}, s.localHost())
}

func localUp(ctx context.Context, s *Session, args Args) error {
	spire, err := onSpire(args.Opts)
	if err != nil {
		return err
	}
	contexts, err := OpenContexts(s.Env.Getenv)
	if err != nil {
		return err
	}
	if old, err := contexts.Load(localContext); err == nil && old.up() {
		return exit.New(exit.Conflict, "end it with Ctrl-C where it runs, or use it: swarmctl list nodes --context local", "a local swarm is already up (process %d)", old.PID)
	}
	o, previous := args.Opts, contexts.Current()
	return local.Up(ctx, local.UpConfig{
		Peers: o.Int("peers"), SNs: o.Int("sns"), Swarmd: o.String("swarmd"), LogDir: o.String("log-dir"), Spire: spire,
		SWOPs: o.Int("swop"), Private: o.String("private"), Package: pythonPackage(), Verbose: o.Bool("verbose"),
		Ready: func(sns []string, identity, swarmID string) error {
			err := contexts.Save(Context{Name: localContext, SNs: sns, Identity: identity, SwarmID: swarmID, PID: os.Getpid()})
			return errors.Join(err, contexts.Switch(localContext))
		},
		Gone: func() {
			mine := contexts.Current() == localContext
			// What can't be taken back now is found to be dead by the next `local up`.
			_ = contexts.Remove(localContext, os.Getpid())
			if mine && previous != localContext {
				_ = contexts.Switch(previous)
			}
		},
	}, s.localHost())
}

// localHost is the outside world as the local tools see it.
func (s *Session) localHost() local.Host {
	return local.Host{
		Stdout: s.Env.Stdout, Stderr: s.Env.Stderr, Getenv: s.Env.Getenv, Environ: os.Environ(), Now: s.Env.Now,
		TTY: s.Env.IsTerminal(s.Env.Stderr), Width: s.width,
		Connect: func(ctx context.Context, sns []string, identity string) (local.API, func(), error) {
			return s.Connect(ctx, Context{SNs: sns, Identity: identity})
		},
		Dashboard: func(ctx context.Context, sns []string, identity, after string, say local.Say) (stop func(), err error) {
			return besideRun(ctx, s, Context{SNs: sns, Identity: identity}, after, say)
		},
	}
}

// width is the terminal's, or 80.
func (s *Session) width() int { return terminal.Columns(s.Env.Stderr, 80) }
