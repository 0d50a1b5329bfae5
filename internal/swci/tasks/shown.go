package tasks

import (
	"bytes"
	"context"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/text"
)

// Reader shows tasks with their definitions.
type Reader interface {
	GetTask(ctx context.Context, name string) (*swarmv1.GetTaskResponse, error)
}

// Shown is a task as an SN shows it. Its digest was computed here: what is signed by it is what was shown.
type Shown struct {
	*swarmv1.Task

	Definition []byte
	Sum        string // the digest that it has, or will have if it is finalised as it is
}

// Final reports whether the task can't be changed any more.
func (s *Shown) Final() bool { return s.GetDigest() != "" }

// Look fetches a task, and refuses one whose digest is not that of what the SN shows: the operator would read one task and sign another.
func Look(ctx context.Context, api Reader, name string) (*Shown, error) {
	s, said, err := shownAs(ctx, api, name)
	if err == nil && s.Sum != said && !s.Final() { // its prerequisite may have been finalised between the two answers
		s, said, err = shownAs(ctx, api, name)
	}
	if err == nil && s.Sum != said {
		err = notShown(name, s.Sum, said)
	}
	return s, err
}

// shownAs fetches a task, and what the SN says is its digest.
func shownAs(ctx context.Context, api Reader, name string) (s *Shown, said string, err error) {
	s, said, err = fetch(ctx, api, name)
	if err != nil || s.Final() {
		return s, said, err
	}
	before := ""
	if s.GetPrereq() != rootTask {
		needs, err := api.GetTask(ctx, s.GetPrereq())
		if err != nil {
			return nil, "", err
		}
		before = needs.GetTask().GetDigest()
	}
	s.Sum = s.sum(before)
	return s, said, nil
}

// fetch fetches a task, and computes the digest that it has if it is final.
func fetch(ctx context.Context, api Reader, name string) (s *Shown, said string, err error) {
	res, err := api.GetTask(ctx, name)
	if err != nil {
		return nil, "", err
	}
	s = &Shown{Task: res.GetTask(), Definition: res.GetDefinition()}
	if s.GetName() != name {
		return nil, "", exit.New(exit.Failed, otherSN, "the SN shows task %q, and was asked for %s", text.Line(s.GetName()), name)
	}
	s.Sum = s.sum(s.GetPrereqDigest())
	if s.Final() && s.GetDigest() != s.Sum {
		return nil, "", notShown(name, s.Sum, s.GetDigest())
	}
	return s, res.GetDigest(), nil
}

func (s *Shown) sum(before string) string {
	t := taskfile.Task{
		Name: s.GetName(), Type: s.GetType(), Author: s.GetAuthor(), Prereq: s.GetPrereq(), Outcome: s.GetOutcome(), Definition: s.Definition,
	}
	return t.Digest(before)
}

// otherSN is what to do about an SN that lies.
const otherSN = "ask another SN with --sn HOST:PORT, and tell the operators of this one"

func notShown(name, shown, said string) error {
	return exit.New(exit.Failed, otherSN, "the SN shows a task %s with the digest %.12s…, and says that it is %.12s…: nothing is signed", text.Line(name), shown, text.Line(said))
}

// rootTask is the prerequisite of tasks that need none.
const rootTask = "ROOTTASK"

// maxBefore is how many tasks before a task are shown, at most: from others no host takes an image.
const maxBefore = 16

// Before returns the tasks that a final task needs, the nearest first. Each is the one that the digest of the task behind it covers.
func (s *Shown) Before(ctx context.Context, api Reader) (all []*Shown, err error) {
	for at := s; at.GetPrereq() != rootTask && len(all) < maxBefore; {
		before, _, err := fetch(ctx, api, at.GetPrereq())
		if err != nil {
			return nil, err
		}
		if !before.Final() || before.Sum != at.GetPrereqDigest() {
			return nil, exit.New(exit.Failed, otherSN, "the SN shows another task %s than task %s was finalised with: nothing is signed", text.Line(before.GetName()), text.Line(at.GetName()))
		}
		all, at = append(all, before), before
	}
	return all, nil
}

// Same refuses a task of the swarm that is not what a file says.
func (s *Shown) Same(file *taskfile.Task) error {
	if s.GetName() == file.Name && s.GetType() == file.Type && s.GetAuthor() == file.Author && s.GetPrereq() == file.Prereq &&
		s.GetOutcome() == file.Outcome && bytes.Equal(s.Definition, file.Definition) {
		return nil
	}
	return exit.New(exit.Failed, otherSN+"; compare with: swarmctl get task body "+file.Name, "the SN shows another task %s than the file has", file.Name)
}
