package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/terminal"
	"github.com/swarmd/swarmd/node"
)

const doctorName = "doctor"

// The doctor's own options.
const (
	outputFlag     = "output"
	modelBytesFlag = "model-bytes"
)

// doctored are the commands that a doctor can look at beforehand.
var doctored = []string{"run-sl", "run-sn", "run-swop"}

// doctorCommand stands for the doctor's commands in help and among the names of commands; doctorArgs leads past it.
func doctorCommand() *cli.Command {
	c := command(doctorName, "check this host before a node joins: doctor run-sl OPTIONS, and likewise run-sn and run-swop", nil, nil)
	c.ArgsUsage = strings.Join(doctored, "|")
	c.Action = func(c *cli.Context) error {
		if c.NArg() == 0 {
			return fmt.Errorf("doctor checks a command: swarmd doctor %s, with the options that it is to be started with", strings.Join(doctored, " or swarmd doctor "))
		}
		return fmt.Errorf("doctor knows no command %q: want %s", c.Args().First(), strings.Join(doctored, " or "))
	}
	return c
}

// doctorCommands look at the commands of their names, each of which has the same options and two more.
func doctorCommands(e Env) []*cli.Command {
	form := func() cli.Flag {
		return &cli.StringFlag{Name: outputFlag, Aliases: []string{"o"}, Value: "table", Usage: "table or json"}
	}
	model := &cli.Int64Flag{Name: modelBytesFlag, Usage: "size of the model in bytes: judge whether its weight files fit"}
	look := func(name string, flags []cli.Flag, run func(*cli.Context, Env) (*doctor.Report, error)) *cli.Command {
		c := command(doctorName+" "+name, "check whether "+name+" with these options could join; nothing is started or joined", append(flags, form()), func(c *cli.Context) error {
			return diagnose(c, e, run)
		})
		c.Hidden = true
		return described(agentHelp, c)
	}
	return []*cli.Command{look("run-sl", append(slCommand(e).Flags, model), doctorSL), look("run-sn", snCommand(e).Flags, doctorSN), look("run-swop", swopCommand(e).Flags, doctorSWOP)}
}

// doctorArgs makes the two words of a doctor's command one, which is its name.
func doctorArgs(args []string) []string {
	if len(args) > 2 && args[1] == doctorName && slices.Contains(doctored, args[2]) {
		return append([]string{args[0], doctorName + " " + args[2]}, args[3:]...)
	}
	return args
}

// undoctored is the command that a doctor's command looks at, whose options of the original it takes too; other commands are themselves.
func undoctored(name string) string { return strings.TrimPrefix(name, doctorName+" ") }

func diagnose(c *cli.Context, e Env, run func(*cli.Context, Env) (*doctor.Report, error)) error {
	form := c.String(outputFlag)
	if form != "table" && form != "json" {
		return fmt.Errorf("--%s %s: want table or json", outputFlag, form)
	}
	if n := c.Int64(modelBytesFlag); n < 0 {
		return fmt.Errorf("--%s %d: want a number of bytes", modelBytesFlag, n)
	}
	quiet := e
	quiet.dry = true
	quiet.Stderr = io.Discard // what the node would log: the rows say it
	report, err := run(c, quiet)
	if err != nil {
		return err
	}
	if form == "json" {
		err = report.PrintJSON(e.Stdout)
	} else {
		err = report.Print(e.Stdout, terminal.Is(e.Stdout) && e.Getenv("NO_COLOR") == "")
	}
	if err == nil && !report.OK {
		err = &ExitError{Code: 1}
	}
	return err
}

// patient is a doctor's look at one node to be.
type patient struct {
	c       *cli.Context
	e       Env
	role    identity.Role
	base    node.Common
	options *start.Node
	limit   time.Duration // of a look that waits for somebody
	ports   []claimed
	sns     []string // HOST:PORT to make a handshake with
	out     *doctor.Report
}

// claimed is a port that the node is to listen on, and its option.
type claimed struct {
	flag string
	port int
}

// options adds what is wrong with the options, and reports whether that is nothing.
func (p *patient) optionsWell(wrong problems) bool {
	if len(wrong) == 0 {
		wrong.add(p.base.Validate())
	}
	said := map[string]bool{}
	for _, err := range wrong {
		for line := range strings.Lines(err.Error()) {
			if line = strings.TrimSpace(line); line != "" && !said[line] { // two looks may find the same
				said[line] = true
				p.out.Add(doctor.Option(line, fmt.Sprintf("swarmd run-%s --help explains each option", p.role)))
			}
		}
	}
	if len(wrong) == 0 {
		p.out.Add(doctor.Well("options", "they can be taken together; the node's name is "+p.base.Name))
		return true
	}
	p.out.Add(doctor.Skip("everything else", "correct the options first"))
	return false
}

// discard is the log of parts that a doctor opens: what is to be said is said in rows.
func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func doctorSL(c *cli.Context, e Env) (*doctor.Report, error) {
	p := &patient{c: c, e: e, role: identity.RoleSL, limit: cmp.Or(e.wait, stepLimit), out: doctor.New("run-sl")}
	o, err := readSL(c, e)
	var cfg node.SLConfig
	var wrong problems
	if wrong.add(err) {
		cfg, wrong = slProblems(c, e, o)
	}
	p.base, p.options = cfg.Common, &o.Node
	if !p.optionsWell(wrong) {
		return p.out, nil
	}
	p.base.Log = discard()
	p.ports, p.sns = []claimed{{"sl-fs-port", cfg.FSPort}}, cfg.SNs
	ctx := c.Context
	p.network(ctx)
	p.out.Add(metrics.Look(ctx, p.base.Metrics)...)
	p.stateDir(ctx)
	p.swarm(ctx)
	p.out.Add(doctor.Skip("dial back", fmt.Sprintf("whether others reach port %d of %s is seen when the node has joined: swarmctl list nodes, swarmctl doctor", cfg.FSPort, cfg.Host)))
	p.program(ctx, o, cfg)
	p.space(cfg.BridgeDir, o)
	p.gpus(ctx, o)
	if inContainer(c) {
		p.engine(ctx, "", o.Container.Image)
	}
	return p.out, ctx.Err()
}

func doctorSN(c *cli.Context, e Env) (*doctor.Report, error) {
	p := &patient{c: c, e: e, role: identity.RoleSN, limit: cmp.Or(e.wait, stepLimit), out: doctor.New("run-sn")}
	o, err := readSN(c, e)
	var cfg node.SNConfig
	var wrong problems
	if o == nil {
		o = new(start.SN)
	}
	if wrong.add(err) {
		cfg, wrong = snProblems(c, e, o)
	}
	p.base, p.options = cfg.Common, &o.Node
	if !p.optionsWell(wrong) {
		return p.out, nil
	}
	p.base.Log = discard()
	p.ports = []claimed{{"sn-p2p-port", cfg.P2PPort}, {"sn-api-port", cfg.APIPort}, {"sn-fs-port", cfg.FSPort}}
	ctx := c.Context
	ips := p.network(ctx)
	p.out.Add(metrics.Look(ctx, p.base.Metrics)...)
	p.sns = p.joins(ctx, cfg, ips)
	p.stateDir(ctx)
	p.swarm(ctx)
	p.out.Add(doctor.Skip("dial back", fmt.Sprintf("whether others reach ports %d, %d and %d of %s is seen when the node has joined: swarmctl list nodes, swarmctl doctor", cfg.P2PPort, cfg.APIPort, cfg.FSPort, cfg.Host)))
	p.out.Add(p.stateSpace())
	if inContainer(c) {
		p.engine(ctx, "", o.Container.Image)
	}
	return p.out, ctx.Err()
}

// within bounds a look, and says why it ended.
func (p *patient) within(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.limit, errors.New("no "+what+" within "+p.limit.String()))
}
