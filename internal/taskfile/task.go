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
	"github.com/swarmd/swarmd/internal/yamlfile"
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

	unfilled *yamlfile.Finding
	prereq   yamlfile.Finding // where Prereq stands
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
	f.Text = text.Line(fmt.Sprintf("Prereq %q is no task of the swarm%s", yamlfile.Excerpt(t.Prereq), remedy))
	return &f
}

// Digest returns the digest that the swarm's task has if it says what t says. before is that of its prerequisite, or empty for ROOTTASK.
func (t *Task) Digest(before string) string {
	x := task.Task{
		Name: t.Name, Type: t.Type, Author: t.Author, Prereq: t.Prereq, Outcome: t.Outcome, Definition: t.Definition, PrereqDigest: before,
	}
	return x.Sum()
}

func asError(f *yamlfile.Finding) error {
	if f == nil {
		return nil
	}
	return f
}

// Types are those of tasks, as a file names them.
var Types = []string{task.RunSwarm, task.MakeSwarmUserContent, task.MakeUserContainer, task.PullImage}

// ReadTask reads a task file leniently. file is its name, for what is said of it. The error is one line and names the file's line; what is
// odd and was read all the same is returned beside the task.
func ReadTask(file string, data []byte) (*Task, []*yamlfile.Finding, error) {
	d := &yamlfile.Document{File: file}
	t := readTask(d, data)
	if err := d.Err(); err != nil {
		return nil, d.All(yamlfile.Noted, yamlfile.Odd), err
	}
	return t, d.All(yamlfile.Noted, yamlfile.Odd), nil
}

// LintTask returns everything in which a task file deviates from what the original's schema allows, by line; none: it is valid.
func LintTask(file string, data []byte) []*yamlfile.Finding {
	d := &yamlfile.Document{File: file}
	readTask(d, data)
	return d.All(yamlfile.Strict, yamlfile.Odd, yamlfile.Unfilled, yamlfile.Broken)
}

func readTask(d *yamlfile.Document, data []byte) *Task {
	root := d.Parse(data)
	if root == nil {
		return nil
	}
	f := d.At(root, "").Fields(yamlfile.Broken, "Name", "TaskType", "Author", "Prereq", "Outcome", "Body")
	if f == nil {
		return nil
	}
	t := &Task{
		Name:    namedBy(f, "Name"),
		Type:    kindOfTask(f),
		Author:  f.Want("Author", yamlfile.Rule{Free: true}),
		Prereq:  namedBy(f, "Prereq"),
		Outcome: f.Want("Outcome", yamlfile.Rule{}),
	}
	t.prereq = yamlfile.Finding{File: d.File, Line: f.Get("Prereq", 0).Node.Line}
	if t.Name == task.Root {
		f.Get("Name", 0).Find(yamlfile.Broken, "Name is %s, which every swarm has: choose another", task.Root)
	}
	if t.Prereq == t.Name && t.Name != "" {
		f.Get("Prereq", 0).Find(yamlfile.Broken, "Prereq is the task itself: name another, or %s", task.Root)
	}
	for _, x := range []string{"Author", "Outcome"} {
		if v := f.Get(x, 0); len(v.Node.Value) > 160 {
			v.Find(yamlfile.Broken, "%s has %d bytes, at most 160 are kept", x, len(v.Node.Value))
		}
	}
	if body := f.Get("Body", yamlfile.Broken); t.Type != "" && f.Has("Body") {
		t.Body = readBody(body, t.Type)
	}
	if t.Body != nil {
		if t.Definition = definition(t.Body); len(t.Definition) > task.MaxDefinition {
			f.Get("Body", 0).Find(yamlfile.Broken, "Body has %d bytes when it is written out, at most %d are kept", len(t.Definition), task.MaxDefinition)
		}
	}
	t.unfilled = d.First(yamlfile.Unfilled)
	return t
}

func kindOfTask(f *yamlfile.Fields) string {
	v := f.Get("TaskType", yamlfile.Broken)
	switch {
	case !f.Has("TaskType"):
		return ""
	case v.Null():
		v.Find(yamlfile.Broken, "%s is empty%s", v.Name, yamlfile.Meant("", Types))
		return ""
	}
	if v.Node.Kind == yaml.ScalarNode && strings.EqualFold(v.Node.Value, buildSwarm) {
		v.Find(yamlfile.Broken, "%s %q is not known: did you mean %s?", v.Name, v.Node.Value, NearType(v.Node.Value))
		return ""
	}
	return v.OneOf(Types...)
}

// buildSwarm is a type that the original's documents name in places and its releases never had. What they say there is about builds.
const buildSwarm = "BUILD_SWARM"

// NearType returns the type of tasks that was probably meant, "" if none is near.
func NearType(typed string) string {
	if strings.EqualFold(typed, buildSwarm) {
		return task.MakeUserContainer
	}
	return suggest.Word(yamlfile.Excerpt(typed), Types)
}

// namedBy returns the name of a task or taskrunner.
func namedBy(f *yamlfile.Fields, name string) string {
	s := f.Want(name, yamlfile.Rule{})
	if v := f.Get(name, 0); s != "" && yamlfile.Placeholder(s) == "" && !naming.ValidContract(s) {
		v.Find(yamlfile.Broken, "%s is %q: use 1 to %d of A-Z a-z 0-9 . _ - and begin with a letter or digit", v.Name, yamlfile.Excerpt(s), naming.MaxContract)
	}
	return s
}
