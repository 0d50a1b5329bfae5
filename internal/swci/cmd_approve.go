package swci

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

func approveCommands() []*Command {
	digest := []cli.Flag{&cli.StringFlag{Name: "digest", Usage: "`DIGEST` of the task that was read: one of another digest is left as it is"}}
	const group = "Tasks"
	return []*Command{
		{
			Pattern: "list approvals", Group: group, Shell: true,
			Summary: "List what waits for operators' approval",
			Details: "Shows the assignments in which a host asks somebody before it carries out a task, as its owner's policy says: who asked for it, since when the host waits, and until when it may begin. Read the task, then say so: \"approve task TASK on HOST\" or \"refuse task TASK on HOST\", with --digest of what you have read.",
			Example: "list approvals",
			JSON:    approvalsJSON{},
			Run:     listApprovals,
		},
		{
			Pattern: "approve task TASK on HOST", Group: group, Shell: true,
			Summary: "Let a host that asks carry out a task",
			Details: "For a host whose owner's policy asks somebody first: its member is \"asked\", and its words name this command. Shows the assignments of the task that wait on the host, and signs an approval of each: of its ID, the task's digest, the taskrunner and the host, as long as the assignment is valid. What the task has hosts do is shown too; swarmctl computes the digest of what the SN shows, and signs nothing if it is another than the assignment's. Read the task before: \"get task body TASK\"; --digest says which one you have read.\n\nThe host believes no SN. It proves who approved with its own trust bundle, and goes by its owner's policy: whoever asked for the assignment can't approve it, and a shared SPIFFE ID only if the policy names it. Where an approval does not count, the words of the member say why. The ledger has each approval.",
			Example: "approve task pull on hospital-b",
			Flags:   append([]cli.Flag{&cli.StringFlag{Name: "image", Usage: "`DIGEST` of the image (sha256:…) that is meant: if the host has found another one, it does not take the approval"}}, digest...),
			JSON:    saidJSON{},
			Run:     approveTask,
		},
		{
			Pattern: "refuse task TASK on HOST [because] [REASON...]", Group: group, Shell: true,
			Summary: "Have a host that asks not carry out a task",
			Details: "Like \"approve task\". A refusal stands over approvals, and ends the host's part in the assignment: where as many hosts as must can't succeed without it, that of all. The reason is one line of at most 256 bytes, which all see.",
			Example: "refuse task pull on hospital-b because the image is unknown here",
			Flags:   digest,
			JSON:    saidJSON{},
			Run:     refuseTask,
		},
	}
}

// saidJSON is `approve task TASK on HOST -o json`, and what `refuse task` prints.
type saidJSON struct {
	Task        string        `json:"task" doc:"its name"`
	Host        string        `json:"host" doc:"whose part in them it was"`
	Refused     bool          `json:"refused" doc:"or else approved"`
	Reason      string        `json:"reason" doc:"of a refusal"`
	Assignments []waitingJSON `json:"assignments" doc:"that waited on the host, those first that were made first"`
}

// waitingJSON is an assignment that waits on a host.
type waitingJSON struct {
	ID      string  `json:"id" doc:"of the assignment"`
	Digest  string  `json:"digest" doc:"of the task, in hex"`
	Runner  string  `json:"taskrunner" doc:"empty: it has none"`
	Beside  string  `json:"beside" doc:"the SL that runs rank 0 of the job itself, by the task; empty: hosts have all members"`
	By      string  `json:"by" doc:"SPIFFE ID of who asked for it, as the SNs say"`
	Expires *string `json:"expires" doc:"no host begins it later; RFC 3339, UTC"`
}

// approvalsJSON is `list approvals -o json`.
type approvalsJSON struct {
	Approvals []approvalJSON `json:"approvals" doc:"what waits, of the assignment first that was made first"`
}

// approvalJSON is a host's part in an assignment that waits for an operator's word.
type approvalJSON struct {
	Assignment string  `json:"assignment" doc:"its ID"`
	Task       string  `json:"task" doc:"its name"`
	TaskType   string  `json:"task_type" doc:"the task's; empty: it was deleted"`
	Digest     string  `json:"digest" doc:"of the task, in hex"`
	Taskrunner string  `json:"taskrunner" doc:"empty: it has none"`
	Host       string  `json:"host" doc:"that asks"`
	Beside     string  `json:"beside" doc:"the SL that runs rank 0 of the job itself, as the SNs say; empty: hosts have all members"`
	By         string  `json:"by" doc:"SPIFFE ID of who asked for the task, as the SNs say"`
	Since      *string `json:"since" doc:"when the host began to wait; RFC 3339, UTC"`
	Expires    *string `json:"expires" doc:"the host does not begin it later; RFC 3339, UTC; null: never"`
	Text       string  `json:"text" doc:"what the host says of it"`
}

func listApprovals(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		all, err := tasks.Asking(ctx, api)
		if err != nil {
			return fmt.Errorf("list approvals: %w", err)
		}
		out := approvalsJSON{Approvals: []approvalJSON{}}
		t := table{header: []string{"TASK", "HOST", "DIGEST", "ASKED BY", "SINCE", "EXPIRES"}}
		for _, x := range all {
			a, m := x.Assignment, x.Member
			out.Approvals = append(out.Approvals, approvalJSON{
				Assignment: a.GetId(), Task: a.GetTask(), TaskType: a.GetTaskType(), Digest: a.GetDigest(), Taskrunner: a.GetTaskrunner(), Host: m.GetNode(), Beside: a.GetBeside(), By: a.GetBy(),
				Since: stamp(m.GetChangedUnixMs()), Expires: stamp(a.GetExpiresUnixMs()), Text: m.GetText(),
			})
			t.add(a.GetTask(), m.GetNode(), a.GetDigest(), a.GetBy(), clockTime(m.GetChangedUnixMs()), clockTime(a.GetExpiresUnixMs()))
		}
		return s.show(out, func() error { return t.print(s.Env.Stdout) })
	})
}

func approveTask(ctx context.Context, s *Session, args Args) error {
	image := args.Opts.String("image")
	if _, err := policy.NewImage("image", image); err != nil && image != "" {
		return exit.New(exit.Usage, "give it as the host tells it: sha256: and 64 hex digits", "approve task: --image %.80s is no digest of an image", text.Line(image))
	}
	return haveWord(ctx, s, args, saidJSON{}, func(api client.Tasks, on *swarmv1.PartOfHost) error {
		on.Image = image
		_, err := api.ApproveTask(ctx, &swarmv1.ApproveTaskRequest{Part: on})
		return err
	})
}

func refuseTask(ctx context.Context, s *Session, args Args) error {
	said := saidJSON{Refused: true, Reason: strings.Join(args.Rest, " ")}
	return haveWord(ctx, s, args, said, func(api client.Tasks, on *swarmv1.PartOfHost) error {
		_, err := api.RefuseTask(ctx, &swarmv1.RefuseTaskRequest{Part: on, Reason: said.Reason})
		return err
	})
}

// haveWord signs a word on what waits on a host, after it was shown.
func haveWord(ctx context.Context, s *Session, args Args, said saidJSON, sign func(api client.Tasks, on *swarmv1.PartOfHost) error) error {
	said.Task, said.Host = args.Value("TASK"), args.Value("HOST")
	verb, done := "approve", "approved"
	if said.Refused {
		verb, done = "refuse", "refused"
	}
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		waits, err := tasks.Waiting(ctx, api, said.Task, said.Host, args.Opts.String("digest"))
		if err == nil {
			err = factsToSign(s, waits.Facts)
		}
		if err != nil {
			return fmt.Errorf("%s task %s on %s: %w", verb, said.Task, said.Host, err)
		}
		for i, a := range waits.Of {
			said.Assignments = append(said.Assignments, waitingJSON{a.GetId(), a.GetDigest(), a.GetTaskrunner(), waits.Task.Beside().SL, a.GetBy(), stamp(a.GetExpiresUnixMs())})
			if !s.JSON {
				fmt.Fprintf(s.Env.Stdout, "assignment %s of task %s, digest %s, asked for by %s, valid until %s\n",
					text.Line(a.GetId()), text.Line(a.GetTask()), text.Line(a.GetDigest()), text.Line(a.GetBy()), clockTime(a.GetExpiresUnixMs()))
				tellHostsWords(s, a, said.Host)
			}
			if err := sign(api, waits.Parts[i]); err != nil {
				return fmt.Errorf("%s assignment %s on %s: %w", verb, text.Line(a.GetId()), said.Host, err)
			}
			if !s.JSON {
				fmt.Fprintf(s.Env.Stdout, "%s on %s\n", done, text.Line(said.Host))
			}
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, said)
		}
		return nil
	})
}

// tellHostsWords shows what a host says of its part: which image it has found, and whose words do not count.
func tellHostsWords(s *Session, a *swarmv1.Assignment, host string) {
	for _, m := range a.GetMembers() {
		if m.GetNode() == host && m.GetText() != "" {
			fmt.Fprintf(s.Env.Stdout, "%s says: %s\n", text.Line(host), text.Line(m.GetText()))
			return
		}
	}
}
