package swci

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

func taskCommands() []*Command {
	const group = "Tasks"
	return []*Command{
		{
			Pattern: "create task from FILE", Group: group, Shell: true,
			Summary: "Make a task of a task file",
			Details: "Reads the file, makes the task and writes its body. The file is read leniently: what is odd in it is said, and only what nobody can carry out is refused, with the line. The task is not finalised: until it is, lines of its body can be written anew, and no host carries it out.\n\nNothing is made if anything fails.",
			Example: "create task from taskdefs/run_swarm.yaml",
			JSON:    registeredJSON{},
			Run:     createTaskFrom,
		},
		{
			Pattern: "create task TYPE NAME AUTHOR PREREQ OUTCOME", Group: group, Shell: true,
			Summary: "Make a task without a body",
			Details: "TYPE is RUN_SWARM, MAKE_USER_CONTAINER, PULL_IMAGE or MAKE_SWARM_USER_CONTENT. PREREQ is a task that must be carried out first, or ROOTTASK. OUTCOME is what the task makes, such as the name of an image. The body is written with \"append task body\".",
			Example: "create task PULL_IMAGE pull me ROOTTASK hospital/app:1",
			JSON:    taskJSON{},
			Run:     createTask,
		},
		{
			Pattern: "append task body NAME INDEX LINE...", Group: group, Shell: true, Verbatim: true,
			Summary: "Write a line of a task's body",
			Details: "INDEX counts from 1: a line that is there is replaced, and the one behind the last is added. All words after INDEX are the line. At the prompt and in scripts it is what stands behind the blank after INDEX, with its blanks and quotes, or one quoted word; in a shell put it in quotes if they matter. Options stand before INDEX. Refused once the task is finalised.",
			Example: "append task body pull 1 RepoName : app",
			JSON:    taskJSON{},
			Run:     appendTaskBody,
		},
		{
			Pattern: "finalize task NAME", Group: group, Shell: true,
			Summary: "Fix a task, so that hosts can carry it out",
			Details: "Reads the task's body, and refuses one that no host could carry out, with the line. From then on the task can't be changed: its digest says what hosts carry out. What it needs must be finalised too.",
			Example: "finalize task pull",
			JSON:    taskJSON{},
			Run:     finaliseTask,
		},
		{
			Pattern: "delete task NAME [force]", Group: group, Shell: true,
			Summary: "Remove a task",
			Details: "Refused if another task needs it or hosts are carrying it out; if it is finalised, only force removes it.",
			Example: "delete task pull",
			JSON:    deletedTaskJSON{},
			Run:     deleteTask,
		},
		{
			Pattern: "get task info NAME", Group: group, Shell: true,
			Summary: "Show what is known of a task",
			Details: "Shows type, author, prerequisite, outcome and state, and of a finalised task the digest.",
			Example: "get task info pull",
			JSON:    taskInfoJSON{},
			Run:     getTaskInfo,
		},
		{
			Pattern: "get task body NAME", Group: group, Shell: true,
			Summary: "Show the body of a task",
			Details: "Prints the lines of the body as they are kept. At the prompt each has its number; the original's line 0 is ---.",
			Example: "get task body pull",
			JSON:    taskBodyJSON{},
			Run:     getTaskBody,
		},
		{
			Pattern: "list tasks", Group: group, Shell: true,
			Summary: "List all tasks",
			Details: "ROOTTASK, which every swarm has, is the first.",
			Example: "list tasks",
			JSON:    tasksJSON{},
			Run:     listTasks,
		},
	}
}

// ownPaths are files on this host: at the prompt the user directory also has its names in the original's containers.
func ownPaths(s *Session, files ...string) []string {
	own := slices.Clone(files)
	for i, f := range files {
		if s.prompt != nil {
			own[i] = s.prompt.shell.Path(f)
		}
	}
	return own
}

// taskJSON is a task as the commands print it that list or change tasks.
type taskJSON struct {
	Name      string  `json:"name" doc:"the task's"`
	Type      string  `json:"type" doc:"RUN_SWARM, MAKE_USER_CONTAINER, PULL_IMAGE, MAKE_SWARM_USER_CONTENT, or ROOT_TASK of ROOTTASK"`
	Author    string  `json:"author" doc:"as who made it says"`
	Prereq    string  `json:"prereq" doc:"task that must be carried out first, or ROOTTASK"`
	Outcome   string  `json:"outcome" doc:"what it makes, such as the name of an image"`
	Status    string  `json:"status" doc:"REGISTERED or FINALIZED"`
	Digest    string  `json:"digest" doc:"SHA-256 of all of the above and the body, in hex; empty until it is finalised"`
	By        string  `json:"by" doc:"SPIFFE ID of who made it"`
	Created   *string `json:"created" doc:"RFC 3339, UTC; null for ROOTTASK"`
	Finalised *string `json:"finalised" doc:"RFC 3339, UTC; null: it is not"`
	Bytes     uint32  `json:"bytes" doc:"of its body"`

	said  func(taskJSON) []string // in words, of a command that changes the task; nil: the facts
	facts fields
}

func (t taskJSON) words(l *lines) {
	if t.said == nil {
		l.facts(t.facts)
		return
	}
	for _, line := range t.said(t) {
		l.say(line)
	}
}

func taskToJSON(t *swarmv1.Task) taskJSON {
	out := taskJSON{
		Name: t.GetName(), Type: t.GetType(), Author: t.GetAuthor(), Prereq: t.GetPrereq(), Outcome: t.GetOutcome(), Status: t.GetStatus(), Digest: t.GetDigest(),
		By: t.GetBy(), Created: stamp(t.GetCreatedUnixMs()), Finalised: stamp(t.GetFinalisedUnixMs()), Bytes: t.GetBytes(),
	}
	f := &out.facts
	f.add("NAME", out.Name)
	f.add("TYPE", out.Type)
	f.add("AUTHOR", out.Author)
	f.add("PREREQ", out.Prereq)
	f.add("OUTCOME", out.Outcome)
	f.add("STATE", out.Status)
	f.add("DIGEST", out.Digest)
	f.add("CREATED_BY", out.By)
	f.add("CREATED", clockTime(t.GetCreatedUnixMs()))
	f.add("FINALIZED", clockTime(t.GetFinalisedUnixMs()))
	return out
}

// registeredJSON is `create task from FILE -o json`.
type registeredJSON struct {
	Task     taskJSON `json:"task" doc:"as it was made"`
	Lines    int      `json:"lines" doc:"of its body"`
	Warnings []string `json:"warnings" doc:"what is odd in the file, as FILE:LINE: text"`

	wrote []tasks.Batch
}

func (r registeredJSON) words(l *lines) {
	l.say("Task definition is valid")
	l.say("Task Registered : " + r.Task.Name)
	l.say("Appending Task Body")
	for _, b := range r.wrote {
		l.say(appended(b))
	}
}

// appended is what the original says of lines that it has written.
func appended(b tasks.Batch) string {
	return fmt.Sprintf("batch start : %d , len : %d Successful", b.From, b.Len)
}

func createTaskFrom(ctx context.Context, s *Session, args Args) error {
	t, warned, err := tasks.Read(ownPaths(s, args.Value("FILE"))[0])
	out := registeredJSON{Warnings: []string{}}
	for _, w := range warned {
		out.Warnings = append(out.Warnings, w.Error())
		if !s.JSON {
			s.say("warning: " + w.Error())
		}
	}
	if err != nil {
		return fmt.Errorf("create task: %w", err)
	}
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		made, wrote, err := tasks.Register(ctx, api, t)
		if err != nil {
			return fmt.Errorf("create task %s: %w", t.Name, err)
		}
		out.Task, out.Lines, out.wrote = taskToJSON(made), strings.Count(string(t.Definition), "\n"), wrote
		return s.show(out, func() error {
			fmt.Fprintf(s.Env.Stdout, "task %s is registered, with %s; fix it with: swarmctl finalize task %s\n", text.Line(t.Name), many(out.Lines, "line"), text.Line(t.Name))
			return nil
		})
	})
}

func createTask(ctx context.Context, s *Session, args Args) error {
	kind := strings.ToUpper(args.Value("TYPE"))
	if err := tasks.CheckType(kind); err != nil {
		return fmt.Errorf("create task: %w", err)
	}
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		if err := tasks.CheckPrereq(ctx, api, args.Value("PREREQ")); err != nil {
			return fmt.Errorf("create task %s: %w", args.Value("NAME"), err)
		}
		made, err := api.CreateTask(ctx, &swarmv1.CreateTaskRequest{
			Name: args.Value("NAME"), Type: kind, Author: args.Value("AUTHOR"), Prereq: args.Value("PREREQ"), Outcome: args.Value("OUTCOME"),
		})
		if err != nil {
			return fmt.Errorf("create task %s: %w", args.Value("NAME"), err)
		}
		return showChanged(s, made, "is registered, without a body", func(t taskJSON) []string { return []string{"Task Registered : " + t.Name} })
	})
}

// showChanged says what became of a task that was changed: in words what the original says.
func showChanged(s *Session, t *swarmv1.Task, done string, said func(taskJSON) []string) error {
	out := taskToJSON(t)
	out.said = said
	return s.show(out, func() error {
		fmt.Fprintf(s.Env.Stdout, "task %s %s\n", text.Line(out.Name), done)
		return nil
	})
}

func appendTaskBody(ctx context.Context, s *Session, args Args) error {
	name, line := args.Value("NAME"), strings.Join(args.Rest, " ")
	index, err := strconv.ParseUint(args.Value("INDEX"), 10, 32)
	if err != nil || index == 0 {
		return exit.New(exit.Usage, "lines are counted from 1", "%q is no number of a line", args.Value("INDEX"))
	}
	if strings.Contains(line, "\n") {
		return exit.New(exit.Usage, "append its lines one by one", "the line for task %s has several", name)
	}
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		changed, err := api.EditTask(ctx, name, uint32(index), line)
		if err != nil {
			return fmt.Errorf("append task body %s: %w", name, err)
		}
		return showChanged(s, changed, fmt.Sprintf("has a line %d", index), func(taskJSON) []string {
			return []string{"Appending Task Body", appended(tasks.Batch{From: uint32(index), Len: 1})}
		})
	})
}

func finaliseTask(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		final, err := tasks.Finalise(ctx, api, args.Value("NAME"))
		if err != nil {
			return fmt.Errorf("finalize task %s: %w", args.Value("NAME"), err)
		}
		return showChanged(s, final, "is finalised, with digest "+final.GetDigest(), func(t taskJSON) []string { return []string{"Task Finalized : " + t.Name} })
	})
}

// deletedTaskJSON is `delete task NAME -o json`.
type deletedTaskJSON struct {
	Deleted string `json:"deleted" doc:"name of the task that was removed"`
}

func (d deletedTaskJSON) words(l *lines) { l.say("Task Deleted : " + d.Deleted) }

func deleteTask(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		name := args.Value("NAME")
		if err := api.DeleteTask(ctx, name, args.Has("force")); err != nil {
			return fmt.Errorf("delete task %s: %w", name, err)
		}
		return s.show(deletedTaskJSON{name}, func() error {
			fmt.Fprintf(s.Env.Stdout, "task %s is deleted\n", text.Line(name))
			return nil
		})
	})
}

// taskInfoJSON is `get task info NAME -o json`.
type taskInfoJSON struct {
	taskJSON

	Beside string `json:"beside" doc:"the SL that runs rank 0 of the job itself; empty: hosts run all that it has, or it is no job"`
}

func getTaskInfo(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		t, err := tasks.Look(ctx, api, args.Value("NAME"))
		if err != nil {
			return fmt.Errorf("get task %s: %w", args.Value("NAME"), err)
		}
		b := t.Beside()
		out := taskInfoJSON{taskToJSON(t.Task), b.SL}
		if b.SL != "" {
			out.facts.add("BESIDE", tasks.BesideWords(b))
		}
		return s.show(out, func() error { return out.facts.table(s.Env.Stdout) })
	})
}

// taskBodyJSON is `get task body NAME -o json`.
type taskBodyJSON struct {
	Name   string   `json:"name" doc:"the task's"`
	Digest string   `json:"digest" doc:"that it has, or will have if it is finalised as it is"`
	Lines  []string `json:"lines" doc:"of its body, from the first"`
}

func (b taskBodyJSON) words(l *lines) {
	l.say("0000: ---")
	for i, line := range b.Lines {
		l.say(fmt.Sprintf("%04d: %s", i+1, line))
	}
}

func getTaskBody(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		t, err := tasks.Look(ctx, api, args.Value("NAME"))
		if err != nil {
			return fmt.Errorf("get task %s: %w", args.Value("NAME"), err)
		}
		body := taskBodyJSON{Name: t.GetName(), Digest: t.Sum, Lines: []string{}}
		for line := range strings.Lines(string(t.Definition)) {
			body.Lines = append(body.Lines, strings.TrimSuffix(line, "\n"))
		}
		return s.show(body, func() error {
			for _, line := range body.Lines {
				fmt.Fprintln(s.Env.Stdout, text.Line(line))
			}
			return nil
		})
	})
}

// tasksJSON is `list tasks -o json`.
type tasksJSON struct {
	Tasks []taskJSON `json:"tasks" doc:"ROOTTASK, then the others by name"`
}

func (t tasksJSON) words(l *lines) {
	for _, x := range t.Tasks {
		l.say(x.Name)
	}
}

func listTasks(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		all, err := api.ListTasks(ctx)
		if err != nil {
			return fmt.Errorf("list tasks: %w", err)
		}
		out := tasksJSON{Tasks: []taskJSON{}}
		t := table{header: []string{"NAME", "TYPE", "STATE", "PREREQ", "OUTCOME", "AUTHOR"}}
		for _, x := range all {
			out.Tasks = append(out.Tasks, taskToJSON(x))
			t.add(x.GetName(), x.GetType(), strings.ToLower(x.GetStatus()), x.GetPrereq(), x.GetOutcome(), x.GetAuthor())
		}
		return s.show(out, func() error { return t.print(s.Env.Stdout) })
	})
}

// withTasks is withAPI for calls about tasks.
func withTasks(ctx context.Context, s *Session, args Args, fn func(client.Tasks) error) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error { return fn(client.Tasks{By: api}) })
}
