package containers_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/containers"
	"github.com/swarmd/swarmd/internal/work/ownimage"
)

// tasks are those of a swarm.
type tasks map[string]*task.Task

func (t tasks) Task(_ context.Context, name string) (*task.Task, error) {
	if t[name] == nil {
		return nil, errors.New("no task " + name)
	}
	return t[name], nil
}

// pair is a task that fetches an image, and one that runs it.
func pair(outcome string) (before, train *task.Task) {
	before = &task.Task{Name: "fetch", Type: task.PullImage, Prereq: task.Root, Outcome: outcome}
	before.Digest = before.Sum()
	return before, &task.Task{
		Name: "train", Type: task.RunSwarm, Prereq: before.Name, PrereqDigest: before.Digest,
		Definition: []byte("Entrypoint : a\nCommand : b\nWorkingDir : /w\nEnvvars : null\nPrivateContent : null\nSharedContent : null\n"),
	}
}

// hostOf has a profile without nodes: whoever gets as far has all images.
func hostOf(log io.Writer, before *task.Task) *containers.Runner {
	return &containers.Runner{
		Profile: &taskfile.Profile{}, Node: "swop", Own: ownimage.New(enginetest.TestImage, slog.New(slog.NewTextHandler(log, nil))), Tasks: tasks{before.Name: before},
		Env: start.Env{Getenv: func(string) string { return "test-none" }}, Open: engine.Open, Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

const reached = "the profile has no nodes"

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
	before, train := pair(outcome)
	r := hostOf(io.Discard, before)
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
		reached:                     found, // all is well with its image
		"nobody has decided on its": nil,
		"this host no longer has the image that was decided on, " + gone + " (" + outcome + ")": {Name: outcome, ID: gone},
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

// TestATaskThatIsNotThere may come, as an SN that lags has it late: it is waited for.
func TestATaskThatIsNotThere(t *testing.T) {
	before, train := pair("a:1")
	r := hostOf(io.Discard, before)
	r.Tasks = tasks{}
	_, err := r.Image(t.Context(), train)
	if passing, ok := errors.AsType[*work.Passing](err); !ok || !strings.Contains(passing.Words, "task fetch, which task train needs, could not be fetched") {
		t.Errorf("%v", err)
	}
}

// TestTheImageOfSLsIsPinned: an SL is started from the image that the name stood for when its SWOP started. The name moves, which changes
// nothing; an image that is gone is an error that names it, as one is that was never there.
func TestTheImageOfSLsIsPinned(t *testing.T) {
	e := enginetest.Engine(t)
	name := strings.ToLower(t.Name()) + ":1"
	before, train := pair(enginetest.TestImage)
	log := &bytes.Buffer{}
	r := hostOf(log, before)
	r.Own = ownimage.New(name, r.Log)
	found, err := r.Image(t.Context(), train)
	if err != nil {
		t.Fatal(err)
	}
	wants := func(want string) {
		t.Helper()
		j := work.Job{Label: work.Label{Swarm: "s", Node: "swop", Assignment: "7", Epoch: 1}, Task: train, Image: found}
		if err := r.Prepare(t.Context(), j); err == nil || !strings.Contains(work.Explained(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	look := func() {
		t.Helper()
		if _, err := r.Find(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tag := func(id string) {
		t.Helper()
		if err := e.ImageTag(t.Context(), id, name); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = e.ImageRemove(context.Background(), name, image.RemoveOptions{}) })

	look()
	look()
	if said := log.String(); strings.Count(said, "no SL can be started yet") != 1 {
		t.Errorf("without an image it says once that there is none:\n%s", said)
	}
	wants("this host has no image " + name + " to start SLs from: make it with make image")
	id := ""
	t.Run("there", func(t *testing.T) { // at its end the image is gone
		id = enginetest.Labelled(t, e, map[string]string{"x": "sl"})
		tag(id)
		look()
		tag(enginetest.TestImage)
		look()
		wants(reached)
		if said := log.String(); strings.Count(said, "whatever becomes of its name") != 1 || !strings.Contains(said, "id="+id) {
			t.Errorf("it does not say once which image it is:\n%s", said)
		}
	})
	wants("this host no longer has the image from which its SWOP starts SLs, " + id + " (" + name + "): start the SWOP again")
}

// TestPodmansImages: they are found, and told apart, as Docker's.
func TestPodmansImages(t *testing.T) {
	t.Setenv("DOCKER_HOST", enginetest.Podman(t))
	before, train := pair(enginetest.TestImage)
	r := hostOf(io.Discard, before)
	found, err := r.Image(t.Context(), train)
	if err != nil || found.Check() != nil || found.ID == "" {
		t.Fatal(found, err)
	}
	for want, image := range map[string]*policy.Image{
		reached: found, "this host no longer has": {Name: enginetest.TestImage, ID: "sha256:" + strings.Repeat("0", 64)},
	} {
		j := work.Job{Label: work.Label{Swarm: "s", Node: "swop", Assignment: "7", Epoch: 1}, Task: train, Image: image}
		if err := r.Prepare(t.Context(), j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
