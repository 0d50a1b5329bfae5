package swci

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/hostlogs"
	"github.com/swarmd/swarmd/internal/swci/jobs"
	"github.com/swarmd/swarmd/internal/text"
)

func logCommands() []*Command {
	return []*Command{{
		Pattern: "get logs NAME", Group: "Watch", Shell: true,
		Summary: "Show the log of a node, or what a task or job has printed",
		Details: "NAME is a node, whose own log is shown, or a task or a job: then what its programs have printed on each host of its last assignment, each line behind HOST/SL, or of a job behind HOST/GROUP/RANK, also on hosts that have joined it since. For those you need the right to list assignments. --assignment names another assignment, of the task or on the host that NAME is. The last lines are shown; with -f also those that follow, until the task has ended there. A host keeps the last lines of programs that have ended, of the last 64.\n\n" +
			"What a program prints may be data, so the host's owner decides: logs go to the SPIFFE IDs that \"logs\" in the host's policy names, by default to operators of the host's own trust domain. The request is signed, and the host proves by itself who asks; no SN can read what it hands out, and each time stands in the host's log. Control characters are left out.\n\n" +
			"Logs of a SWOP, and of its tasks, come from its file server (get ports) line by line as they are printed, if it can be dialled from here. Else they come through SNs, as those of SLs do, sealed for this command alone. The log of an SN comes from that SN itself, which must be within reach.",
		Example: "get logs train -f",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "assignment", Usage: "`ID` of the assignment, as the host logs it and the ledger has it"},
			&cli.IntFlag{Name: "tail", Value: 100, Usage: "`LINES` to begin with, of each program: at most 10000"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what is printed from now on"},
		},
		JSON: logsJSON{},
		Run:  getLogs,
	}}
}

// logsJSON is `get logs NAME -o json`.
type logsJSON struct {
	Assignment string        `json:"assignment" doc:"its ID; empty: these are logs of nodes themselves"`
	Lines      []logLineJSON `json:"lines" doc:"those of one program in their order"`
}

// logLineJSON is one of them, on the page of the dashboard too.
type logLineJSON = dashboard.LogLine

func getLogs(ctx context.Context, s *Session, args Args) error {
	name, q := args.Value("NAME"), hostlogs.Query{Tail: args.Opts.Int("tail"), Follow: args.Opts.Bool("follow")}
	switch {
	case q.Tail < 0 || q.Tail > hostlogs.MaxTail:
		return exit.New(exit.Usage, fmt.Sprintf("give at most --tail %d", hostlogs.MaxTail), "get logs %s: %d lines are not to be had", name, q.Tail)
	case s.JSON && q.Follow:
		return exit.New(exit.Usage, "leave out -f, or -o json", "get logs %s: what is followed has no end, and so no JSON", name)
	}
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		found, alone, err := hostlogs.Named(ctx, api, name, args.Opts.String("assignment"))
		if err != nil {
			return fmt.Errorf("get logs %s: %w", name, apiError(err))
		}
		if alone {
			s.say("whether hosts have joined assignment " + found[0].Assignment + " since is not known: you have no right to list assignments")
		}
		assignment := found[0].Assignment // of several the one that the others have joined
		q.At = atSN(s, args.Opts)
		q.Around = onceAround(s)
		named := namesOf(ctx, api, assignment)
		out := logsJSON{Assignment: assignment, Lines: []logLineJSON{}}
		failed := q.Read(ctx, api, found, func(l hostlogs.Line) {
			l = named(l)
			switch {
			case s.JSON:
				out.Lines = append(out.Lines, logLineJSON(l))
			case assignment == "":
				fmt.Fprintln(s.Env.Stdout, text.Plain(l.Text))
			default:
				printLogLine(s.Env.Stdout, l)
			}
		})
		if s.JSON {
			if err := printJSON(s.Env.Stdout, out); err != nil {
				return err
			}
		}
		return saidOfLogs(s, name, len(found), failed)
	})
}

// atSN has an SN asked that is found by its address; opts may be nil where the session has one swarm.
func atSN(s *Session, opts *cli.Context) func(context.Context, string, func(client.Operator) error) error {
	return func(ctx context.Context, address string, ask func(client.Operator) error) error {
		target, err := s.target(opts)
		if err != nil {
			return err
		}
		target.SNs = []string{address}
		return onSwarm(ctx, s, target, ask)
	}
}

// namesOf has members of jobs called as their operators call them. Who may not read the assignment sees what the hosts say.
func namesOf(ctx context.Context, api client.Operator, assignment string) func(hostlogs.Line) hostlogs.Line {
	if assignment == "" {
		return jobs.Named(nil)
	}
	a, err := client.Tasks{By: api}.GetAssignment(ctx, assignment)
	if err != nil {
		return jobs.Named(nil)
	}
	return jobs.Named(a)
}

// printLogLine writes a line of an assignment's programs behind where it is from.
func printLogLine(w io.Writer, l hostlogs.Line) {
	fmt.Fprintf(w, "%s/%s: %s\n", text.Line(l.Host), text.Line(l.From), text.Plain(l.Text))
}

// onceAround says of the first host whose log comes through SNs why that is: where one is behind a firewall others may be too.
func onceAround(s *Session) func(host string, why error) {
	var once sync.Once
	return func(host string, why error) {
		once.Do(func() {
			s.say(fmt.Sprintf("%s does not hand out its log directly, so logs come through SNs: %s", host, text.Clip(why.Error(), maxWhy)))
		})
	}
}

// maxWhy bounds why a host was not reached, in bytes.
const maxWhy = 300

// saidOfLogs is the error of a host that was asked alone; of several each is said as it is.
func saidOfLogs(s *Session, name string, hosts int, failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	if hosts == 1 {
		return fmt.Errorf("get logs %s: %w", name, apiError(failed[0]))
	}
	for _, err := range failed {
		s.say(fmt.Sprintf("get logs %s: %v", name, err))
	}
	return exit.Said(exit.Code(apiError(failed[0])))
}
