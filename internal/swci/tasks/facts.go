package tasks

import (
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// Fact is something that a task says, under the original's name for it.
type Fact struct{ Name, Value string }

// maxSteps is how many steps of a task are shown, at most.
const maxSteps = 20

// Facts say what a host does that carries out a task, whose prerequisites are before, for an operator who signs it.
func (s *Shown) Facts(before []*Shown) []Fact {
	facts := []Fact{{"TASK", s.GetName()}, {"TYPE", s.GetType()}, {"AUTHOR", s.GetAuthor()}, {"DIGEST", s.Sum}}
	if s.GetType() == jobrequest.TaskType {
		return append(facts, jobFactsOf(s.Definition)...)
	}
	body, err := taskfile.ReadBody(s.GetType(), s.Definition)
	switch b := body.(type) {
	case taskfile.RunSwarm:
		facts = append(facts, runs(b, before)...)
	case taskfile.PullImage:
		facts = append(facts, Fact{"IMAGE", b.Image()})
	case taskfile.MakeUserContainer:
		facts = append(facts, Fact{"IMAGE", s.GetOutcome()}, Fact{"BUILD_CONTEXT", b.BuildContext})
		facts = append(facts, steps("BUILD_STEP", b.BuildSteps)...)
	case taskfile.MakeSwarmUserContent:
		var ops []string
		for _, o := range b.Ops {
			ops = append(ops, strings.TrimSpace(o.Operation+" "+o.Target+" "+o.Out))
		}
		facts = append(facts, Fact{"CONTENT", strings.TrimSpace(b.ContentType + " " + s.GetOutcome())})
		facts = append(facts, steps("OPERATION", ops)...)
	default:
		facts = append(facts, Fact{"BODY", "can't be carried out: " + err.Error()})
	}
	for _, b := range before {
		facts = append(facts, Fact{"NEEDS", fmt.Sprintf("task %s, %s, digest %s", b.GetName(), b.GetType(), b.Sum)})
	}
	return facts
}

// runs are the facts of a program.
func runs(b taskfile.RunSwarm, before []*Shown) []Fact {
	facts := []Fact{{"IMAGE", image(before)}, {"COMMAND", strings.TrimSpace(b.Entrypoint + " " + b.Command)}, {"WORKING_DIR", b.WorkingDir}}
	var env, mounts []string
	for _, v := range b.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	if b.PrivateContent != "" {
		mounts = append(mounts, "the node's private data at "+b.PrivateContent)
	}
	for _, m := range b.SharedContent {
		mounts = append(mounts, fmt.Sprintf("%s %s at %s", m.MountType, m.Src, m.Tgt))
	}
	return append(append(facts, steps("ENVVAR", env)...), steps("MOUNT", mounts)...)
}

// image is where a program has its image from; empty: a host that runs processes needs none.
func image(before []*Shown) string {
	for _, b := range before {
		if b.GetType() == "PULL_IMAGE" || b.GetType() == "MAKE_USER_CONTAINER" {
			return fmt.Sprintf("%s, of task %s", b.GetOutcome(), b.GetName())
		}
	}
	return ""
}

// steps are facts of one name.
func steps(name string, values []string) (facts []Fact) {
	for _, v := range values[:min(len(values), maxSteps)] {
		facts = append(facts, Fact{name, v})
	}
	if more := len(values) - maxSteps; more > 0 {
		facts = append(facts, Fact{name, fmt.Sprintf("and %d more: swarmctl get task body", more)})
	}
	return facts
}
