package launch_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// TestRemediesForTasks: who reads what has become of a task has given no option of run-sl.
func TestRemediesForTasks(t *testing.T) {
	dir := t.TempDir()
	err := launch.ForTask(launch.CheckProgram(dir, "", "none.py"))
	if want := "program " + filepath.Join(dir, "none.py") + " does not exist: put it into the model directory or change Command in the task"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	away := &engine.Error{Err: errors.New("exit code 127: check --ml-cmd, --ml-entrypoint and --ml-images\n  it said --ml-cmd"), Help: "give --ml-image"}
	err = launch.ForTask(away)
	var with interface{ Remedy() string }
	if got, want := err.Error(), "exit code 127: check Command in the task, Entrypoint in the task and --ml-images\n  it said --ml-cmd"; got != want || !errors.As(err, &with) || !strings.Contains(with.Remedy(), "Prereq") || !errors.Is(err, away) {
		t.Errorf("got %q, %v, want %q", got, with, want)
	}
	if launch.ForTask(nil) != nil {
		t.Error("nothing is an error")
	}
}
