package containers_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/containers"
)

// tasks are those of a swarm.
type tasks map[string]*task.Task

func (t tasks) Task(_ context.Context, name string) (*task.Task, error) { return t[name], nil }

// TestTheImageIsTheOneThatWasFound: a task's image is found by its name, once. The name moves and goes away, which changes nothing; an image
// that is gone is an error that names it.
func TestTheImageIsTheOneThatWasFound(t *testing.T) {
	e := enginetest.Engine(t)
	outcome := strings.ToLower(t.Name()) + ":1"
	first, second := enginetest.Labelled(t, e, map[string]string{"x": "1"}), enginetest.Labelled(t, e, map[string]string{"x": "2"})
	name := func(id string) {
		t.Helper()
		if err := e.ImageTag(t.Context(), id, outcome); err != nil {
			t.Fatal(err)
		}
	}
	unname := func() {
		_ = e.ImageTag(context.Background(), enginetest.TestImage, outcome) // an image that loses its last name is removed
		_, _ = e.ImageRemove(context.Background(), outcome, image.RemoveOptions{})
	}
	t.Cleanup(unname)
	before := &task.Task{Name: "fetch", Type: task.PullImage, Prereq: task.Root, Outcome: outcome}
	before.Digest = before.Sum()
	train := &task.Task{Name: "train", Type: task.RunSwarm, Prereq: before.Name, PrereqDigest: before.Digest, Definition: []byte("Entrypoint : a\nCommand : b\nWorkingDir : /w\nEnvvars : null\nPrivateContent : null\nSharedContent : null\n")}
	r := &containers.Runner{
		Profile: &taskfile.Profile{}, Node: "swop", Tasks: tasks{"fetch": before}, Log: slog.New(slog.DiscardHandler),
		Open: func(ctx context.Context) (*engine.Engine, error) { return engine.Open(ctx) },
	}
	r.Env.Getenv = func(string) string { return "test-none" }

	if got, err := r.Image(t.Context(), train); err == nil || !strings.Contains(work.Explained(err), "this host has none of that name: assign task fetch first") {
		t.Errorf("before it is there: %+v, %v", got, err)
	}
	name(first)
	found, err := r.Image(t.Context(), train)
	if err != nil || found.ID != first || found.Name != outcome || found.Check() != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	name(second)
	if got, err := r.Image(t.Context(), train); err != nil || got.ID != second {
		t.Errorf("the name has moved: %+v, %v", got, err)
	}
	unname()

	j := work.Job{Label: work.Label{Swarm: "s", Node: "swop", Assignment: "7", Epoch: 1}, Task: train, Image: found}
	gone := "sha256:" + strings.Repeat("0", 64)
	for want, image := range map[string]*policy.Image{
		"the profile has no nodes":  found, // all is well with its image
		"nobody has decided on its": nil,
		"this host no longer has the image that was decided on, " + outcome + " is " + gone: {Name: outcome, ID: gone},
	} {
		j.Image = image
		_, startErr := r.Start(t.Context(), j)
		for _, err := range []error{r.Prepare(t.Context(), j), startErr} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
	r.Open = func(context.Context) (*engine.Engine, error) { return nil, errors.New("no engine") }
	if _, err := r.Image(t.Context(), train); err == nil || err.Error() != "no engine" {
		t.Errorf("no engine: %v", err)
	}
}
