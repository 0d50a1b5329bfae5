package task_test

import (
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

func TestPartIsReadAsItIsWritten(t *testing.T) {
	want := task.Part{Host: "h-0", Assignment: "7", Epoch: 2, Member: 3}
	var got task.Part
	if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want || want.String() != "h-0/7/2/3" {
		t.Errorf("%s was read as %v, %v", want, got, err)
	}
	for _, bad := range []string{"", "h-0", "h-0/7/2", "h-0/7/2/3/4", "h 0/7/2/3", "h-0/07/2/3", "h-0/7/0/3", "h-0/7/-1/3", "h-0/7/2/4294967296"} {
		if err := got.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

// TestWanted holds what may run of a part, by what becomes of the assignment.
func TestWanted(t *testing.T) {
	mine := task.Part{Host: "h-0", Assignment: "7", Epoch: 1}
	b := running(t)
	lost := task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Lost, Text: "silent"}}}
	for name, tt := range map[string]struct {
		b    *task.Board
		part task.Part
		want bool
	}{
		"runs":               {b, mine, true},
		"the other host":     {b, task.Part{Host: "h-1", Assignment: "7", Epoch: 1, Member: 1}, true},
		"a member elsewhere": {b, task.Part{Host: "h-0", Assignment: "7", Epoch: 1, Member: 1}, false},
		"no such member":     {b, task.Part{Host: "h-0", Assignment: "7", Epoch: 1, Member: 2}, false},
		"another epoch":      {b, task.Part{Host: "h-0", Assignment: "7", Epoch: 2}, false},
		"no such assignment": {b, task.Part{Host: "h-0", Assignment: "8", Epoch: 1}, false},
		"no tasks":           {nil, mine, false},
		"lost":               {after(t, b, move(lost)), mine, false},
		"has a verdict":      {after(t, b, do("7", task.Judge)), mine, false},
	} {
		if got := task.Wanted(tt.b, tt.part); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
