package taskfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/text"
)

// Task is what a task file says.
type Task struct {
	Name    string
	Type    string // one of those of consensus/task
	Author  string
	Prereq  string // another task, or ROOTTASK
	Outcome string // what it makes, such as the name of an image
	// Definition is the body as the original keeps it: one field a line, sorted, without the line --- that it shows as number 0.
	Definition []byte
	Body       Body // what Definition says

	unfilled *Finding
	prereq   Finding // where Prereq stands
}

// Unfilled returns the first placeholder that the file still has, such as <CURRENT-PATH>, as an error; nil if there is none.
func (t *Task) Unfilled() error { return asError(t.unfilled) }

// Missing returns, as an error, that the prerequisite is none of the tasks that there are; nil if it is one.
func (t *Task) Missing(tasks []string) error {
	if t.Prereq == task.Root || slices.Contains(tasks, t.Prereq) {
		return nil
	}
	f, remedy := t.prereq, ": create it first, or use "+task.Root
	if near := suggest.Word(t.Prereq, tasks); near != "" {
		remedy = ": did you mean " + near + "?"
	}
	f.Text = text.Line(fmt.Sprintf("Prereq %q is no task of the swarm%s", clip(t.Prereq), remedy))
	return &f
}

// Digest returns the digest that the swarm's task has if it says what t says. before is that of its prerequisite, or empty for ROOTTASK.
func (t *Task) Digest(before string) string {
	x := task.Task{
		Name: t.Name, Type: t.Type, Author: t.Author, Prereq: t.Prereq, Outcome: t.Outcome, Definition: t.Definition, PrereqDigest: before,
	}
	return x.Sum()
}

func asError(f *Finding) error {
	if f == nil {
		return nil
	}
	return f
}

// Types are those of tasks, as a file names them.
var Types = []string{task.RunSwarm, task.MakeSwarmUserContent, task.MakeUserContainer, task.PullImage}

// ReadTask reads a task file leniently. file is its name, for what is said of it. The error is one line and names the file's line; what is
// odd and was read all the same is returned beside the task.
func ReadTask(file string, data []byte) (*Task, []*Finding, error) {
	d := &document{file: file}
	t := d.task(data)
	if err := d.err(); err != nil {
		return nil, d.all(noted, odd), err
	}
	return t, d.all(noted, odd), nil
}

// LintTask returns everything in which a task file deviates from what the original's schema allows, by line; none: it is valid.
func LintTask(file string, data []byte) []*Finding {
	d := &document{file: file}
	d.task(data)
	return d.all(strict, odd, unfilled, broken)
}

func (d *document) task(data []byte) *Task {
	root := d.parse(data)
	if root == nil {
		return nil
	}
	f := d.at(root, "").fields(broken, "Name", "TaskType", "Author", "Prereq", "Outcome", "Body")
	if f == nil {
		return nil
	}
	t := &Task{
		Name:    f.named("Name"),
		Type:    f.kindOfTask(),
		Author:  f.want("Author", rule{free: true}),
		Prereq:  f.named("Prereq"),
		Outcome: f.want("Outcome", rule{}),
	}
	t.prereq = Finding{File: d.file, Line: f.get("Prereq", 0).n.Line}
	if t.Name == task.Root {
		f.get("Name", 0).find(broken, "Name is %s, which every swarm has: choose another", task.Root)
	}
	if t.Prereq == t.Name && t.Name != "" {
		f.get("Prereq", 0).find(broken, "Prereq is the task itself: name another, or %s", task.Root)
	}
	for _, x := range []string{"Author", "Outcome"} {
		if v := f.get(x, 0); len(v.n.Value) > 160 {
			v.find(broken, "%s has %d bytes, at most 160 are kept", x, len(v.n.Value))
		}
	}
	if body := f.get("Body", broken); t.Type != "" && f.has("Body") {
		t.Body = body.body(t.Type)
	}
	if t.Body != nil {
		if t.Definition = definition(t.Body); len(t.Definition) > task.MaxDefinition {
			f.get("Body", 0).find(broken, "Body has %d bytes when it is written out, at most %d are kept", len(t.Definition), task.MaxDefinition)
		}
	}
	t.unfilled = d.first(unfilled)
	return t
}

func (f *fields) kindOfTask() string {
	v := f.get("TaskType", broken)
	switch {
	case !f.has("TaskType"):
		return ""
	case v.null():
		v.find(broken, "%s is empty%s", v.name, meant("", Types))
		return ""
	}
	if v.n.Kind == yaml.ScalarNode && strings.EqualFold(v.n.Value, buildSwarm) {
		v.find(broken, "%s %q is not known: did you mean %s?", v.name, v.n.Value, NearType(v.n.Value))
		return ""
	}
	return v.oneOf(Types...)
}

// buildSwarm is a type that the original's documents name in places and its releases never had. What they say there is about builds.
const buildSwarm = "BUILD_SWARM"

// NearType returns the type of tasks that was probably meant, "" if none is near.
func NearType(typed string) string {
	if strings.EqualFold(typed, buildSwarm) {
		return task.MakeUserContainer
	}
	return suggest.Word(clip(typed), Types)
}

// named returns the name of a task or taskrunner.
func (f *fields) named(name string) string {
	s := f.want(name, rule{})
	if v := f.get(name, 0); s != "" && placeholders.FindString(s) == "" && !naming.ValidContract(s) {
		v.find(broken, "%s is %q: use 1 to %d of A-Z a-z 0-9 . _ - and begin with a letter or digit", v.name, clip(s), naming.MaxContract)
	}
	return s
}
