package swci

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

// assignExpiry is how long hosts may begin an assignment unless it is told, and maxExpiry how long hosts let it be.
const (
	assignExpiry = 24 * time.Hour
	maxExpiry    = 7 * 24 * time.Hour
)

func assignCommands() []*Command {
	return []*Command{
		{
			Pattern: "assign task TASK to TASKRUNNER WHOM...", Group: "Taskrunners", Shell: true,
			Summary: "Have hosts carry out a task",
			Details: "WHOM is \"with N peers\", \"with all peers\" or \"target NODE\". In a RUN_SWARM task a host counts for as many peers as its profile has SLs, in others for one. With N peers as many hosts are taken as it takes, and N peers must succeed. All peers are those of the hosts that take tasks from the taskrunner at this moment. A target is one host, by name or peer ID: if the taskrunner carries out the task already, the host joins it, and its peers are not waited for in the task's verdict; else it begins anew.\n\n" +
				"The task must be finalised, and the taskrunner must not be busy. Refused if no host takes tasks from it. What is assigned is signed, so that each host can check by itself who asked for what; a host begins it no later than --expires from now.\n\n" +
				"What is signed is shown first: the task's digest and what hosts do by it, with the image and the tasks before it. swarmctl computes the digest of what the SN shows, and signs nothing if the SN says it is another.",
			Example: "assign task mnist to defaulttaskbb.taskdb.sml.hpe with 2 peers",
			Flags: []cli.Flag{
				&cli.DurationFlag{Name: "expires", Value: assignExpiry, Usage: "`TIME` after which no host begins it, at most 168h"},
				&cli.DurationFlag{Name: "time-limit", Usage: "`TIME` after which it fails, at most 720h; 0: never"},
				&cli.StringFlag{Name: "digest", Usage: "`DIGEST` of the task that was read: one of another digest is not assigned"},
				&cli.UintFlag{Name: "retries", Usage: "`NUMBER` of times that other hosts are tried when it can't succeed any more, at most 100"},
			},
			JSON: assignmentJSON{},
			Run:  assignTask,
		},
		{
			Pattern: "wait for taskrunner NAME", Group: "Taskrunners", Shell: true,
			Summary: "Wait until a taskrunner's task has been carried out",
			Details: "Waits until the task has its verdict and nothing of it is left on hosts: for two hours, or as many minutes as SWCI_RUN_TASK_MAX_WAIT_TIME says for RUN_SWARM tasks and SWCI_GENERIC_TASK_MAX_WAIT_TIME for others. Exit code 1 if the task failed or was cancelled, 8 if it is not over then; at the prompt that is only a warning, as in the original.",
			Example: "wait for taskrunner defaulttaskbb.taskdb.sml.hpe",
			JSON:    assignmentJSON{},
			Run:     waitForTaskrunner,
		},
	}
}

// assignmentJSON is `assign task … -o json`, and part of what taskrunners show.
type assignmentJSON struct {
	ID         string  `json:"id" doc:"decimal, the original's OPERATION_ID; empty: the taskrunner is idle"`
	Task       string  `json:"task" doc:"that is carried out"`
	TaskType   string  `json:"task_type" doc:"the task's; empty: it was deleted"`
	Digest     string  `json:"digest" doc:"of the task, SHA-256 in hex"`
	Taskrunner string  `json:"taskrunner" doc:"under whose name"`
	Phase      string  `json:"phase" doc:"waiting, preparing, running, ending or over"`
	Wants      string  `json:"wants" doc:"what is waited for, in words"`
	Verdict    string  `json:"verdict" doc:"succeeded, failed or cancelled; empty: there is none yet"`
	Reason     string  `json:"reason" doc:"of the verdict"`
	By         string  `json:"by" doc:"SPIFFE ID of who asked for it"`
	Peers      uint32  `json:"peers" doc:"that must succeed"`
	Active     uint32  `json:"active_peers" doc:"that have not ended"`
	Completed  uint32  `json:"completed_peers" doc:"that have succeeded"`
	Failed     uint32  `json:"failed_peers" doc:"that have not"`
	Created    *string `json:"created" doc:"RFC 3339, UTC"`
	Changed    *string `json:"changed" doc:"when the phase changed last"`
	Ended      *string `json:"ended" doc:"when it got its verdict; null: it has none"`

	said []string // in words
}

func (a assignmentJSON) words(l *lines) {
	for _, line := range a.said {
		l.say(line)
	}
}

func assignmentToJSON(a *swarmv1.Assignment) assignmentJSON {
	out := assignmentJSON{
		ID: a.GetId(), Task: a.GetTask(), TaskType: a.GetTaskType(), Digest: a.GetDigest(), Taskrunner: a.GetTaskrunner(), Phase: a.GetPhase(), Wants: a.GetWants(),
		Verdict: a.GetVerdict(), Reason: a.GetReason(), By: a.GetBy(), Active: a.GetActivePeers(), Completed: a.GetCompletedPeers(), Failed: a.GetFailedPeers(),
		Created: stamp(a.GetCreatedUnixMs()), Changed: stamp(a.GetChangedUnixMs()), Ended: stamp(a.GetEndedUnixMs()),
	}
	for _, g := range a.GetGroups() {
		out.Peers += g.GetLeast()
	}
	return out
}

// taskSwarm is what is asked before a task is assigned.
type taskSwarm struct{ client.Tasks }

// ListNodes returns all nodes.
func (t taskSwarm) ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error) {
	return t.By.ListNodes(ctx)
}

func assignTask(ctx context.Context, s *Session, args Args) error {
	whom, err := tasks.ParseWhom(args.Rest)
	if err != nil {
		return err
	}
	expires := args.Opts.Duration("expires")
	if expires <= 0 || expires > maxExpiry {
		return exit.New(exit.Usage, "give a time up to 168h", "--expires %v is not valid: hosts take no other", expires)
	}
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		name, taskrunner := args.Value("TASK"), args.Value("TASKRUNNER")
		shown, err := tasks.Look(ctx, api, name)
		if read := args.Opts.String("digest"); err == nil && read != "" && read != shown.Sum {
			err = exit.New(exit.Conflict, "read the task again: swarmctl get task body "+name, "it has the digest %s, not %s", shown.Sum, read)
		}
		if err == nil && !shown.Final() {
			err = exit.New(exit.Conflict, "finalise it: swarmctl finalize task "+name, "it is not finalised")
		}
		if err != nil {
			return fmt.Errorf("assign task %s: %w", name, err)
		}
		req, listening, err := tasks.Plan(ctx, taskSwarm{api}, shown, taskrunner, whom, s.Env.Now().Add(expires))
		if err == nil {
			err = showSigned(ctx, s, api, shown, req)
		}
		if err != nil {
			return fmt.Errorf("assign task %s: %w", name, err)
		}
		req.TimeoutMs, req.Retries = args.Opts.Duration("time-limit").Milliseconds(), uint32(min(args.Opts.Uint("retries"), 1<<31)) //nolint:gosec // bounded
		warnUntrained(ctx, s, api, shown)
		a, err := api.AssignTask(ctx, req)
		if err != nil {
			return fmt.Errorf("assign task %s: %w", name, err)
		}
		out := assignmentToJSON(a)
		out.said = []string{"Task assigned to TaskRunner"}
		if wanted := req.GetGroups()[0].GetPeers(); wanted > listening && !s.JSON {
			s.say(fmt.Sprintf("only %d of %d peers take tasks from taskrunner %s: it waits for more", listening, wanted, taskrunner))
		}
		return s.show(out, func() error {
			fmt.Fprintf(s.Env.Stdout, "task %s is assigned to %s; wait with: swarmctl wait for taskrunner %s\n", text.Line(name), many(int(out.Peers), "peer"), text.Line(taskrunner))
			return nil
		})
	})
}

// warnUntrained says that a task would train nothing, as its contract is completed. Who gets no list of contracts is not warned: that is no
// reason to assign nothing.
func warnUntrained(ctx context.Context, s *Session, api client.Tasks, t *tasks.Shown) {
	if t.GetType() != "RUN_SWARM" {
		return
	}
	all, err := api.By.ListContracts(ctx)
	if err != nil {
		return
	}
	for _, warning := range tasks.Untrained(t, all.GetContracts()) {
		s.say(warning)
	}
}

// showSigned shows what is about to be signed, where somebody reads it. It is also proven where nobody does.
func showSigned(ctx context.Context, s *Session, api client.Tasks, t *tasks.Shown, req *swarmv1.AssignTaskRequest) error {
	facts, err := tasks.Signs(ctx, api, t, req)
	if err != nil {
		return err
	}
	return factsToSign(s, facts)
}

// factsToSign shows an operator what is about to be signed. Scripts and programs have the original's words alone.
func factsToSign(s *Session, facts []tasks.Fact) error {
	var f fields
	for _, x := range facts {
		f.add(x.Name, x.Value)
	}
	switch {
	case s.JSON || s.prompt != nil && s.prompt.shell.Columns() == 0:
		return nil
	case s.inWords():
		(&lines{s.Env.Stdout}).facts(f)
		return nil
	}
	return f.table(s.Env.Stdout)
}

func waitForTaskrunner(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		name := args.Value("NAME")
		first, err := api.GetTaskrunner(ctx, name)
		if err != nil {
			return fmt.Errorf("wait for taskrunner %s: %w", name, err)
		}
		limit, err := tasks.MaxWait(first.GetAssignment().GetTaskType(), s.Env.Getenv)
		if err != nil {
			return err
		}
		p := newTaskProgress(s)
		p.begin(limit)
		a, over, err := tasks.Wait(ctx, patient{api, s}, name, limit, p.seen)
		p.end()
		if err != nil {
			return fmt.Errorf("wait for taskrunner %s: %w", name, err)
		}
		return waited(s, name, a, over, limit)
	})
}

// outage is for how long SNs that do not answer are asked again while a taskrunner is waited for.
const outage = time.Minute

// patient looks at taskrunners through outages: who waits for hours sees SNs being restarted.
type patient struct {
	client.Tasks
	s *Session
}

// GetTaskrunner returns an error if no SN has answered for a minute.
func (p patient) GetTaskrunner(ctx context.Context, name string) (*swarmv1.GetTaskrunnerResponse, error) {
	return outlast(ctx, p.s, func() (*swarmv1.GetTaskrunnerResponse, error) { return p.Tasks.GetTaskrunner(ctx, name) })
}

// outlast asks again while no SN answers, for a minute at most, and says so once.
func outlast[T any](ctx context.Context, s *Session, ask func() (T, error)) (T, error) {
	until, said := time.Now().Add(outage), false
	for {
		r, err := ask()
		if err == nil || ctx.Err() != nil || !time.Now().Before(until) {
			return r, err
		}
		switch exit.Code(apiError(err)) {
		case exit.Unreachable, exit.NoLeader, exit.TimedOut:
		default:
			return r, err
		}
		if !said {
			s.say(err.Error())
			said = true
		}
		if err := pause.For(ctx, betweenTries); err != nil {
			return r, err
		}
	}
}

// waited says how waiting for a taskrunner ended.
func waited(s *Session, name string, a *swarmv1.Assignment, over bool, limit time.Duration) error {
	out := assignmentToJSON(a)
	if !over {
		out.said = []string{"WARNING - Maximum configured SWCI wait time is over"}
		err := s.show(out, func() error { return nil })
		if err != nil || s.inWords() {
			return err
		}
		return exit.New(exit.TimedOut, "swarmctl get taskrunner status "+name+" shows what it waits for", "taskrunner %s is still busy after %v", name, limit)
	}
	out.said = []string{"TASKRUNNER FINISHED", "  STATE : " + tasks.State(a)}
	if t := clockTime(a.GetEndedUnixMs()); t != "" {
		out.said = append(out.said, "  TIME  : "+t)
	}
	err := s.show(out, func() error {
		if a == nil {
			fmt.Fprintf(s.Env.Stdout, "taskrunner %s is idle\n", text.Line(name))
		} else {
			fmt.Fprintf(s.Env.Stdout, "task %s %s\n", text.Line(a.GetTask()), text.Line(a.GetVerdict()))
		}
		return nil
	})
	switch {
	case err != nil || a == nil || a.GetVerdict() == "succeeded":
		return err
	case s.inWords() && a.GetVerdict() == "failed":
		return exit.New(exit.Failed, text.Line(a.GetReason()), "Task has failed, check TASKRUNNER PEER STATUS for Error description")
	}
	return exit.New(exit.Failed, "swarmctl list taskrunner peers "+name+" shows what each host says", "task %s %s: %s", a.GetTask(), a.GetVerdict(), text.Line(a.GetReason()))
}
