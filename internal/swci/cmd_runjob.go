package swci

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/hostlogs"
	"github.com/swarmd/swarmd/internal/swci/jobs"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

func runJobCommands() []*Command {
	const group = "Jobs"
	return []*Command{
		{
			Pattern: "run job FILE", Group: group, Shell: true,
			Summary: "Have hosts run a job",
			Details: "Makes the job's task, finalises it, and assigns it: to the hosts that the job names, else to all that take tasks now. The task has the job with all that its framework adds, its source, and what was changed at the start; it is called JOB.DIGEST, and a job that is started again unchanged has the same. FILE may be a file of Oracle's, as for \"explain job\": what of it is ignored, or is another thing here, is said first. What is signed is shown first: the hosts read the job by themselves, and carry out none that comes to another request than was signed.\n\n" +
				"With -f it is followed until its end, when nothing of it is left on hosts; what its members print is shown too. Interrupting that does not end the job. The exit code is 0 if it succeeded, 1 if it failed or was cancelled, or if not all that it has left was copied to its target, and 8 if its time was over, or it found no room, before it was done.\n\n" +
				"Each changed source makes a task. Your own older tasks of the job are deleted, of which no assignment is known any more.",
			Example: "run job job.yaml --replicas 4 -e EPOCHS=5 -f",
			Flags: append(overrideFlags(),
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "show what becomes of it, until it has ended"},
				&cli.DurationFlag{Name: "expires", Value: assignExpiry, Usage: "`TIME` after which no host begins it that has not before, at most 168h"},
			),
			JSON: startedJobJSON{},
			Run:  runJob,
		},
		{
			Pattern: "cancel job JOB [because] [REASON...]", Group: group, Shell: true,
			Summary: "End a job",
			Details: "Ends all runs of the job that have no verdict, or the one that --assignment names: its members are asked to end, and ended after the job's grace. \"get job status\" shows when nothing is left. Exit code 6 if the job has ended already, or if several operators have started runs of it that are open: then name one. The reason is one line of at most 256 bytes, which all see.",
			Example: "cancel job mnist-ddp because the data is wrong",
			Flags:   []cli.Flag{ofRunFlag()},
			JSON:    cancelledJobJSON{},
			Run:     cancelJob,
		},
	}
}

// ofRunFlag names one of several runs of a job.
func ofRunFlag() cli.Flag {
	return &cli.StringFlag{Name: "assignment", Usage: "`ID` of the assignment, as \"list jobs\" has it"}
}

// startedJobJSON is `run job FILE -o json`.
type startedJobJSON struct {
	Run     jobRunJSON    `json:"run" doc:"as it was begun; with -f as it ended"`
	Hosts   []string      `json:"hosts" doc:"that may have members"`
	Changes []jobs.Change `json:"changes" doc:"what was said in the place of what the file says"`
	Deleted []string      `json:"deleted_tasks" doc:"older tasks of the job"`
}

func runJob(ctx context.Context, s *Session, args Args) error {
	expires := args.Opts.Duration("expires")
	if expires <= 0 || expires > maxExpiry {
		return exit.New(exit.Usage, "give a time up to 168h", "--expires %v is not valid: hosts take no other", expires)
	}
	file := ownPaths(s, args.Value("FILE"))[0]
	j, imported, err := jobs.Load(file, args.Opts.String("image"))
	if err != nil {
		return fmt.Errorf("run job: %w", err)
	}
	p, err := jobs.NewPlan(j, overridesOf(args.Opts), s.Env.Now().Add(expires))
	if err != nil {
		return fmt.Errorf("run job: %s: %w", text.Line(file), err)
	}
	for _, line := range imported.Lines() {
		s.say(text.Line(file) + ", " + line)
	}
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		out, a, err := startJob(ctx, s, api, p)
		if err != nil {
			return fmt.Errorf("run job %s: %w", p.Job, err)
		}
		if !args.Opts.Bool("follow") {
			return s.show(out, func() error {
				fmt.Fprintf(s.Env.Stdout, "job %s is assigned to %s, as assignment %s; see: swarmctl get job status %s\n", p.Job, text.Line(strings.Join(out.Hosts, " ")), text.Line(a.GetId()), p.Job)
				return nil
			})
		}
		a, err = followJob(ctx, s, api, p.Job, a)
		if err != nil {
			return err
		}
		out.Run = jobRunToJSON(a)
		if s.JSON {
			if err := printJSON(s.Env.Stdout, out); err != nil {
				return err
			}
		}
		return endOfJob(s, p.Job, a, j.Artifacts.To != "")
	})
}

// startJob shows what is signed, and starts the job.
func startJob(ctx context.Context, s *Session, api client.Tasks, p *jobs.Plan) (out startedJobJSON, a *swarmv1.Assignment, err error) {
	if err := p.FindHosts(ctx, taskSwarm{api}); err != nil {
		return out, nil, err
	}
	if err := factsToSign(s, p.Facts()); err != nil {
		return out, nil, err
	}
	for _, w := range p.Warned {
		s.say(w)
	}
	if a, err = p.Start(ctx, api); err != nil {
		return out, nil, err
	}
	out = startedJobJSON{Run: jobRunToJSON(a), Hosts: p.Request.GetHosts(), Changes: append([]jobs.Change{}, p.Changes...), Deleted: []string{}}
	deleted, err := p.Prune(ctx, api, a)
	if err != nil { // the job runs all the same
		s.say(fmt.Sprintf("older tasks of the job are left as they are: %v", err))
	}
	if len(deleted) > 0 && !s.JSON {
		s.say(fmt.Sprintf("deleted %s of the job, of which no run is known: %s", many(len(deleted), "older task"), strings.Join(deleted, ", ")))
	}
	out.Deleted = append(out.Deleted, deleted...)
	return out, a, nil
}

// followJob says what becomes of a job until it is over, and shows what its members print.
func followJob(ctx context.Context, s *Session, api client.Tasks, job string, a *swarmv1.Assignment) (*swarmv1.Assignment, error) {
	id := a.GetId()
	seen := func(*swarmv1.Assignment, []string) {}
	if !s.JSON {
		s.say(fmt.Sprintf("job %s began, as assignment %s", job, id))
		named := jobs.Named(a)
		out := &jobs.Output{API: api.By, Line: func(l hostlogs.Line) { printLogLine(s.Env.Stdout, named(l)) }, Say: s.say, Around: onceAround(s)}
		defer out.Close()
		seen = func(a *swarmv1.Assignment, news []string) {
			if out.Seen(ctx, a); tasks.Over(a) {
				out.End(ctx, a)
			}
			for _, line := range news {
				s.say(line)
			}
		}
	}
	a, err := jobs.FollowRun(ctx, func(ctx context.Context) (*swarmv1.Assignment, error) {
		return outlast(ctx, s, func() (*swarmv1.Assignment, error) { return api.GetAssignment(ctx, id) })
	}, seen)
	if err != nil {
		s.say(fmt.Sprintf("job %s goes on without being followed: swarmctl get job status %s, swarmctl cancel job %s", job, job, job))
		return nil, fmt.Errorf("follow job %s: %w", job, err)
	}
	return a, nil
}

// endOfJob says how a job has ended, or is the error of one that did not succeed, or of which not all was copied that was to be.
func endOfJob(s *Session, job string, a *swarmv1.Assignment, copied bool) error {
	if lost := jobs.Losses(a, copied); a.GetVerdict() == "succeeded" && len(lost) > 0 {
		more := ""
		if len(lost) > 1 {
			more = fmt.Sprintf(", and so of %s", many(len(lost)-1, "other member"))
		}
		hint := fmt.Sprintf("swarmctl get job status %s shows of which members, swarmctl get artifacts %s fetches what their hosts keep", job, job)
		return exit.New(exit.Failed, hint, "job %s succeeded, and not all that it has left is where it was to be copied: %s%s", job, text.Line(lost[0]), more)
	}
	if a.GetVerdict() == "succeeded" {
		if !s.JSON {
			s.say(fmt.Sprintf("job %s %s", job, jobs.StateWords(a)))
		}
		return nil
	}
	code, hint := exit.Failed, fmt.Sprintf("swarmctl get job status %s shows what each member came to, swarmctl get logs %s what they printed", job, job)
	switch a.GetEnd() {
	case "no_capacity", "max_runtime", "main_timeout", "ready_timeout":
		code = exit.TimedOut
	}
	if len(a.GetMembers()) == 0 {
		hint = "swarmctl list nodes shows which hosts are up, swarmctl list assignments what they do"
	}
	return exit.New(code, hint, "job %s %s", job, text.Line(jobs.StateWords(a)))
}

// cancelledJobJSON is `cancel job JOB -o json`.
type cancelledJobJSON struct {
	Runs []jobRunJSON `json:"runs" doc:"that were ended"`
}

func cancelJob(ctx context.Context, s *Session, args Args) error {
	job, why := args.Value("JOB"), strings.Join(args.Rest, " ")
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		ended, err := jobs.Cancel(ctx, api, job, args.Opts.String("assignment"), why)
		out := cancelledJobJSON{Runs: []jobRunJSON{}}
		for _, a := range ended {
			out.Runs = append(out.Runs, jobRunToJSON(a))
		}
		shown := error(nil)
		if err == nil || len(ended) > 0 { // what was ended is, whatever became of the others
			shown = s.show(out, func() error {
				for _, a := range ended {
					fmt.Fprintf(s.Env.Stdout, "job %s is cancelled, assignment %s of %s; its members are being ended\n", text.Line(job), text.Line(a.GetId()), text.Line(a.GetBy()))
				}
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("cancel job %s: %w", job, err)
		}
		return shown
	})
}
