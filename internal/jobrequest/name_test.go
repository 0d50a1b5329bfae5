package jobrequest_test

import (
	"testing"

	"github.com/swarmd/swarmd/internal/jobrequest"
)

func TestTaskName(t *testing.T) {
	a, b := jobrequest.TaskName("grid", []byte("name: grid\n")), jobrequest.TaskName("grid", []byte("name: grid\n\n"))
	if a != "grid.dc54b7ed" || b == a {
		t.Errorf("got %s and %s", a, b)
	}
	for _, tt := range []struct{ task, kind, want string }{
		{a, jobrequest.TaskType, "grid"},
		{a, "RUN_SWARM", ""},
		{a, "", "grid"}, // it was deleted
		{"grid", jobrequest.TaskType, ""},
		{"grid.0123abcd.x", jobrequest.TaskType, ""},
		{"Grid.0123abcd", jobrequest.TaskType, ""},
	} {
		if got := jobrequest.JobOf(tt.task, tt.kind); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}
