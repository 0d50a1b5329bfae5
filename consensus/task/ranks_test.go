package task_test

import (
	"maps"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

// TestRanksBeside counts those of SLs whose jobs run, with the one that each runs itself.
func TestRanksBeside(t *testing.T) {
	job := func(beside string, phase task.Phase, peers ...uint32) *task.Assignment {
		a := &task.Assignment{Request: task.Request{JobTerms: task.JobTerms{Beside: beside}}, Phase: phase}
		for _, n := range peers {
			a.Groups = append(a.Groups, task.Group{Peers: n})
		}
		return a
	}
	b := &task.Board{Assignments: map[string]*task.Assignment{
		"1": job("sl-1", task.Over, 7), "2": job("sl-1", task.Running, 2), "3": job("", task.Running, 4), "4": job("sl-2", task.Running, 1, 2), "5": job("sl-3", task.Over, 1),
		"6": job("sl-4", task.Waiting, 1), "7": job("sl-5", task.Ending, 1),
	}}
	if got := task.RanksBeside(b); !maps.Equal(got, map[string]uint32{"sl-1": 3, "sl-2": 4}) {
		t.Errorf("got %v", got)
	}
	if got := task.RanksBeside(nil); len(got) > 0 {
		t.Errorf("of no board: %v", got)
	}
	if task.FirstRank(b.Assignments["2"].JobTerms) != 1 || task.FirstRank(b.Assignments["3"].JobTerms) != 0 {
		t.Error("the first member beside an SL has rank 1, and another one rank 0")
	}
}
