package swci_test

import (
	"os"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// shows is an SN that shows another command in one task, and leaves the digests as they are.
func shows(name string) func(res *swarmv1.GetTaskResponse) {
	return func(res *swarmv1.GetTaskResponse) {
		if res.GetTask().GetName() == name {
			res.Definition = []byte(strings.ReplaceAll(string(res.GetDefinition()), " : ", " :  "))
		}
	}
}

// replaces is an SN that shows another task of the name, with the digest that this one would have.
func replaces(t *testing.T, name string) func(res *swarmv1.GetTaskResponse) {
	t.Helper()
	return func(res *swarmv1.GetTaskResponse) {
		if res.GetTask().GetName() != name {
			return
		}
		res.Task.Outcome = "evil/app:1"
		x := task.Task{
			Name: name, Type: res.Task.Type, Author: res.Task.Author, Prereq: res.Task.Prereq, Outcome: res.Task.Outcome, Definition: res.Definition, PrereqDigest: res.Task.PrereqDigest,
		}
		res.Digest, res.Task.Digest = x.Sum(), x.Sum()
	}
}

// TestNothingIsSignedForAnSNThatLies: what an operator signs is what the SN shows, with the tasks before it, or nothing is signed.
func TestNothingIsSignedForAnSNThatLies(t *testing.T) {
	const differs, before = "and says that it is", "the SN shows another task pull than task run was finalised with"
	for _, tt := range []struct {
		words string
		lies  func(res *swarmv1.GetTaskResponse)
		want  string
	}{
		{"assign task run to tr with 1 peers", shows("run"), differs},
		{"assign task run to tr with 1 peers", shows("pull"), differs},
		{"assign task run to tr with 1 peers", replaces(t, "pull"), before},
		{"approve task run on h-1", shows("run"), differs},
		{"approve task run on h-1", replaces(t, "pull"), before},
		{"approve task run on h-1", replaces(t, "run"), "and assignment 8 is of"},
		{"refuse task run on h-1", replaces(t, "run"), "and assignment 8 is of"},
		{"get task body run", shows("run"), differs},
		{"get task info run", shows("run"), differs},
		{"finalize task open", shows("open"), differs},
		{"get task body run", func(res *swarmv1.GetTaskResponse) { res.Task.Name = "pull" }, "the SN shows task \"pull\", and was asked for run"},
	} {
		runner := &runnerAPI{nodes: []*swarmv1.Node{swop("h-1", 1, "tr")}}
		runner.board, runner.lies = withOpen(t), tt.lies
		var swarm fake = runner
		approve := approvals(t)
		if approve.lies = tt.lies; strings.Contains(tt.words, " on ") {
			swarm = approve
		}
		_, _, err := on(t, swarm, "", append([]string{"--sn=h"}, strings.Fields(tt.words)...)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(exit.Hint(err), "ask another SN") {
			t.Errorf("%s: got %v: %s", tt.words, err, exit.Hint(err))
		}
		if len(runner.asked)+len(approve.said) != 0 || runner.board.Task("open").Final() {
			t.Errorf("%s: was signed", tt.words)
		}
	}
}

// withOpen is signedTasks with one that is not finalised, and needs another.
func withOpen(t *testing.T) *task.Board {
	t.Helper()
	b, err := signedTasks(t).CreateTask(task.Task{Name: "open", Type: task.RunSwarm, Author: "bob", Prereq: "pull", Outcome: "none"})
	if err == nil {
		run := b.Task("run")
		b, err = b.EditTask("open", 1, run.Definition)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestATaskIsFinalisedAsItWasShown: also one whose prerequisite its digest is to cover.
func TestATaskIsFinalisedAsItWasShown(t *testing.T) {
	api := &taskAPI{board: withOpen(t)}
	out, _, err := on(t, api, "", "--sn=h", "finalize", "task", "open")
	if x := api.board.Task("open"); err != nil || !x.Final() || !strings.Contains(out, x.Digest) {
		t.Errorf("got %v\n%s", err, out)
	}
}

// TestOnlyTheTaskThatWasReadIsAssigned: what is signed is shown, and --digest names it.
func TestOnlyTheTaskThatWasReadIsAssigned(t *testing.T) {
	api := &runnerAPI{nodes: []*swarmv1.Node{swop("h-1", 1, "tr")}}
	api.board = signedTasks(t)
	_, _, err := on(t, api, "", strings.Fields("--sn=h assign task run to tr with all peers --digest 00")...)
	if exit.Code(err) != exit.Conflict || len(api.asked) != 0 {
		t.Errorf("got %v", err)
	}
	digest := api.board.Task("run").Digest
	out, _, err := on(t, api, "", append(strings.Fields("--sn=h assign task run to tr with all peers --digest"), digest)...)
	for _, want := range []string{"digest       " + digest, "image        o/app:1, of task pull", "command      python3 train.py -v", "peers        1 of taskrunner tr, on h-1", "expires      1970-01-02 00:00:11"} {
		if err != nil || !strings.Contains(out, want+"\n") {
			t.Errorf("%v, want %s in\n%s", err, want, out)
		}
	}
}

// TestAFileIsWhatTheSNHas: an SN that makes another task of a file is found out at once.
func TestAFileIsWhatTheSNHas(t *testing.T) {
	api := &taskAPI{lies: replaces(t, "pull")}
	path := t.TempDir() + "/pull.yaml"
	if err := os.WriteFile(path, []byte(pullFile), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := on(t, api, "", "--sn=h", "create", "task", "from", path)
	if err == nil || !strings.Contains(err.Error(), "shows another task pull than the file has") {
		t.Errorf("got %v", err)
	}
}
