package swci

import (
	"context"
	"fmt"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/text"
)

func taskrunnerCommands() []*Command {
	const group = "Taskrunners"
	return []*Command{
		{
			Pattern: "create taskrunner NAME", Group: group, Shell: true,
			Summary: "Make a taskrunner",
			Details: "A taskrunner is a name under which one task at a time is carried out, by the hosts that take tasks from it. defaulttaskbb.taskdb.sml.hpe is there from the start. Repeating it does no harm.",
			Example: "create taskrunner radiology",
			JSON:    taskrunnerJSON{},
			Run:     createTaskrunner,
		},
		{
			Pattern: "delete taskrunner NAME", Group: group, Shell: true,
			Summary: "Remove a taskrunner",
			Details: "Refused while it carries out a task. Repeating it does no harm.",
			Example: "delete taskrunner radiology",
			JSON:    deletedTaskrunnerJSON{},
			Run:     deleteTaskrunner,
		},
		{
			Pattern: "list taskrunners", Group: group, Shell: true,
			Summary: "List all taskrunners",
			Details: "defaulttaskbb.taskdb.sml.hpe, which every swarm has, is the first.",
			Example: "list taskrunners",
			JSON:    taskrunnersJSON{},
			Run:     listTaskrunners,
		},
		{
			Pattern: "get taskrunner info NAME", Group: group, Shell: true,
			Summary: "Show what is known of a taskrunner",
			Details: "Shows its state and when it was made. What it carries out is what \"get taskrunner status\" shows.",
			Example: "get taskrunner info radiology",
			JSON:    taskrunnerJSON{},
			Run:     getTaskrunnerInfo,
		},
		{
			Pattern: "get taskrunner status NAME", Group: group, Shell: true,
			Summary: "Show what a taskrunner carries out",
			Details: "Shows the last task that was assigned to it, what that waits for, how many peers are active, have succeeded and have failed, and the verdict with its reason.",
			Example: "get taskrunner status defaulttaskbb.taskdb.sml.hpe",
			JSON:    taskrunnerStatusJSON{},
			Run:     getTaskrunnerStatus,
		},
		{
			Pattern: "list taskrunner peers NAME", Group: group, Shell: true,
			Summary: "List the hosts that carry out a taskrunner's task",
			Details: "Shows each host with its index, its state and what it says of it.",
			Example: "list taskrunner peers defaulttaskbb.taskdb.sml.hpe",
			JSON:    taskrunnerPeersJSON{},
			Run:     listTaskrunnerPeers,
		},
		{
			Pattern: "get taskrunner peer status NAME PEER", Group: group, Shell: true,
			Summary: "Show what a host says of a taskrunner's task",
			Details: "PEER is the host's index, from 0, its name or its peer ID. Of a RUN_SWARM task the SLs that the host started are shown too: name, peer ID, state.",
			Example: "get taskrunner peer status defaulttaskbb.taskdb.sml.hpe 0",
			JSON:    peerStatusJSON{},
			Run:     getTaskrunnerPeer,
		},
		{
			Pattern: "reset taskrunner NAME", Group: group, Shell: true,
			Summary: "Make a taskrunner idle",
			Details: "What it carries out is cancelled. Waits until hosts have removed all of it, for a minute at most.",
			Example: "reset taskrunner defaulttaskbb.taskdb.sml.hpe",
			JSON:    taskrunnerJSON{},
			Run:     resetTaskrunner,
		},
	}
}

// taskrunnerJSON is `create taskrunner NAME -o json`, and a row of `list taskrunners`.
type taskrunnerJSON struct {
	Name    string  `json:"name" doc:"the taskrunner's"`
	Status  string  `json:"status" doc:"IDLE, ASSIGNED, RUNNING, COMPLETE or ERROR"`
	Created *string `json:"created" doc:"RFC 3339, UTC; null: it was there from the start"`

	said  string // in words, of a command that changes it; empty: the facts
	facts fields
}

func (t taskrunnerJSON) words(l *lines) {
	if t.said != "" {
		l.say(t.said)
		return
	}
	l.facts(t.facts)
}

func taskrunnerToJSON(t *swarmv1.Taskrunner) taskrunnerJSON {
	out := taskrunnerJSON{Name: t.GetName(), Status: t.GetStatus(), Created: stamp(t.GetCreatedUnixMs())}
	out.facts.add("NAME", out.Name)
	out.facts.add("STATE", out.Status)
	out.facts.add("CREATED", clockTime(t.GetCreatedUnixMs()))
	return out
}

func createTaskrunner(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		t, err := api.CreateTaskrunner(ctx, args.Value("NAME"))
		if err != nil {
			return fmt.Errorf("create taskrunner %s: %w", args.Value("NAME"), err)
		}
		out := taskrunnerToJSON(t)
		out.said = "TASKRUNNER CREATED : " + out.Name
		return s.show(out, func() error {
			fmt.Fprintf(s.Env.Stdout, "taskrunner %s is %s\n", text.Line(t.GetName()), strings.ToLower(text.Line(t.GetStatus())))
			return nil
		})
	})
}

// deletedTaskrunnerJSON is `delete taskrunner NAME -o json`.
type deletedTaskrunnerJSON struct {
	Deleted string `json:"deleted" doc:"name of the taskrunner that was removed"`
}

func (d deletedTaskrunnerJSON) words(l *lines) { l.say("TASKRUNNER DELETED : " + d.Deleted) }

func deleteTaskrunner(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		name := args.Value("NAME")
		if err := api.DeleteTaskrunner(ctx, name); err != nil {
			return fmt.Errorf("delete taskrunner %s: %w", name, err)
		}
		return s.show(deletedTaskrunnerJSON{name}, func() error {
			fmt.Fprintf(s.Env.Stdout, "taskrunner %s is deleted\n", text.Line(name))
			return nil
		})
	})
}

// taskrunnersJSON is `list taskrunners -o json`.
type taskrunnersJSON struct {
	Taskrunners []taskrunnerJSON `json:"taskrunners" doc:"the default one, then the others by name"`
}

func (t taskrunnersJSON) words(l *lines) {
	for _, x := range t.Taskrunners {
		l.say(x.Name)
	}
}

func listTaskrunners(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		all, err := api.ListTaskrunners(ctx)
		if err != nil {
			return fmt.Errorf("list taskrunners: %w", err)
		}
		out := taskrunnersJSON{Taskrunners: []taskrunnerJSON{}}
		t := table{header: []string{"NAME", "STATE"}}
		for _, x := range all {
			out.Taskrunners = append(out.Taskrunners, taskrunnerToJSON(x))
			t.add(x.GetName(), strings.ToLower(x.GetStatus()))
		}
		return s.show(out, func() error { return t.print(s.Env.Stdout) })
	})
}
