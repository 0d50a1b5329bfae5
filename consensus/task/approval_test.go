package task_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

func says(by, host string, refuse bool) task.Approval {
	return task.Approval{Host: host, Refuse: refuse, By: by, Order: &ledger.Order{Method: "ApproveTask", Request: []byte("{}")}}
}

// approve has an operator say something on assignment 7.
func approve(word task.Approval) step {
	return func(b *task.Board) (*task.Board, error) { return b.Approve(b.Assignments["7"].Request, word) }
}

// waiting is a board with assignment 7 of ann's on the hosts h-0 and h-1, which are asked.
func waiting(t *testing.T) *task.Board {
	t.Helper()
	q := asked("7", task.DefaultTaskrunner, 2)
	q.By, q.Retries = "ann", 1
	return after(t, pull(t), assigning(q), place("7", 0, "peers", "h-0", "h-1"), all("7", task.Asked, false))
}

// TestApproval: each host sees the words on its part, and no others, until the assignment is over.
func TestApproval(t *testing.T) {
	b := waiting(t)
	b = after(t, b, approve(says("bob", "h-0", false)))
	same, err := approve(says("bob", "h-0", false))(b)
	if err != nil || same != b {
		t.Errorf("a second time: changed %t, %v", same != b, err)
	}
	b = after(t, b, approve(says("eve", "h-1", true)), approve(says("bob", "h-0", true)), approve(says("eve", "h-0", false)))
	for host, want := range map[string]string{"h-0": "3 bob true, 4 eve false", "h-1": "2 eve true", "h-2": ""} {
		var got []string
		for _, h := range task.HostedOn(b, host) {
			for _, x := range h.Approvals {
				got = append(got, fmt.Sprint(x.Number, " ", x.By, " ", x.Refuse))
			}
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s sees %q, want %q", host, s, want)
		}
	}
	b = after(t, b, do("7", task.Judge), all("7", task.Stopped, true), do("7", task.Close))
	if left := b.Assignments["7"].Approvals; len(left) > 0 {
		t.Errorf("it is over, and keeps %v", left)
	}
}

func TestApprovalsThatAreRefused(t *testing.T) {
	b := waiting(t)
	refused(t, b, task.Bad, approve(says("ann", "h-0", false)))
	refused(t, b, task.Stale, approve(says("bob", "h-2", false)))
	refused(t, b, task.Bad, approve(says("bob", "h 0", false)))
	long := says("bob", "h-0", true)
	long.Reason = strings.Repeat("<", 50)
	refused(t, b, task.Bad, approve(long))
	long = says("bob", "h-0", false)
	long.Order.Request = bytes.Repeat([]byte("1"), 5000)
	refused(t, b, task.Bad, approve(long))
	for _, tt := range []struct {
		cause  task.Cause
		change func(of *task.Request)
	}{
		{task.Unknown, func(of *task.Request) { of.ID = "8" }},
		{task.Unknown, func(of *task.Request) { of.Task = "other" }},
		{task.Unknown, func(of *task.Request) { of.Taskrunner = "other" }},
		{task.Stale, func(of *task.Request) { of.Digest = strings.Repeat("0", 64) }},
	} {
		of := b.Assignments["7"].Request
		tt.change(&of)
		refused(t, b, tt.cause, func(b *task.Board) (*task.Board, error) { return b.Approve(of, says("bob", "h-0", false)) })
	}
	b = after(t, b, approve(says("b", "h-0", true)), all("7", task.Prepared, false))
	refused(t, b, task.Stale, approve(says("b", "h-0", false)))
	refused(t, after(t, b, do("7", task.Judge)), task.Stale, approve(says("b", "h-0", false)))
}

// TestAnApprovalIsRenewed: one that was signed anew takes the place of the one before, which may have expired.
func TestAnApprovalIsRenewed(t *testing.T) {
	b := after(t, waiting(t), approve(says("bob", "h-0", false)), approve(says("eve", "h-0", false)))
	again := says("bob", "h-0", false)
	again.Order.Nonce = []byte{1}
	b = after(t, b, approve(again))
	if words := b.Assignments["7"].Approvals; len(words) != 2 || words[1].By != "bob" || words[1].Number != 3 || len(words[1].Order.Nonce) != 1 {
		t.Errorf("the words are %+v", words)
	}
	if same, err := approve(again)(b); err != nil || same != b {
		t.Errorf("the same order again: changed %t, %v", same != b, err)
	}
}

// TestNobodyIsShutOutByWords: there is room for one more, whoever has spoken before; those of an organisation that speaks much give way.
func TestNobodyIsShutOutByWords(t *testing.T) {
	b := after(t, waiting(t), approve(says("spiffe://a/bob", "h-0", false)), approve(says("spiffe://b/eve-0", "h-1", false)))
	for i := range 3 * task.MaxApprovals {
		b = after(t, b, approve(says(fmt.Sprint("spiffe://b/eve-", i), "h-0", true)))
	}
	b = after(t, b, approve(says("spiffe://a/cid", "h-0", false)))
	var by []string
	for _, x := range b.Assignments["7"].Approvals {
		if x.Host == "h-0" {
			by = append(by, x.By)
		}
	}
	if len(by) != task.MaxApprovals || by[0] != "spiffe://a/bob" || by[1] != "spiffe://b/eve-34" || by[len(by)-1] != "spiffe://a/cid" || len(b.Assignments["7"].Approvals) != len(by)+1 {
		t.Errorf("the words are by %q", by)
	}
}

// TestApprovalsHaveABoundTogether, so that operators can't fill the state with them, and no one of them, nor those of one organisation, can for
// others.
func TestApprovalsHaveABoundTogether(t *testing.T) {
	var hosts []string
	for i := range 1000 {
		hosts = append(hosts, fmt.Sprint("h-", i))
	}
	q := asked("7", task.DefaultTaskrunner, 1000)
	b := after(t, pull(t), assigning(q), place("7", 0, "peers", hosts...))
	const each = 16 << 10
	for _, tt := range []struct {
		by    string
		least int // how many words there is room for
	}{{"spiffe://a/1", 230}, {"spiffe://a/2", 230}, {"spiffe://a/3", 0}, {"spiffe://b/1", 230}, {"spiffe://b/2", 230}, {"spiffe://c/1", 0}} {
		said := 0
		for ; said < len(hosts); said++ {
			word := says(tt.by, hosts[said], false)
			word.Order.Chain = [][]byte{make([]byte, each)}
			next, err := approve(word)(b)
			if err != nil {
				refused(t, b, task.Full, approve(word))
				break
			}
			b = next
		}
		if said < tt.least || said > tt.least+45 {
			t.Errorf("%s has %d words", tt.by, said)
		}
	}
}

// TestWordsAfterAnApproval: a host that still waits may say something else after each approval, once.
func TestWordsAfterAnApproval(t *testing.T) {
	b := waiting(t)
	say := func(words string, want string) {
		t.Helper()
		next, err := move(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Asked, Text: words}}})(b)
		if err != nil {
			t.Fatal(err)
		}
		if b = next; b.Assignments["7"].Members[0].Text != want || b.Assignments["7"].Members[1].Text != "" {
			t.Errorf("after %q the members are %+v", words, b.Assignments["7"].Members)
		}
	}
	say("1", "")
	b = after(t, b, approve(says("bob", "h-1", false)))
	say("2", "")
	b = after(t, b, approve(says("bob", "h-0", false)))
	say(strings.Repeat("x", 300), "")
	say("3", "3")
	say("4", "3")
	b = after(t, b, approve(says("bob", "h-0", true)))
	say("3", "3")
	say("4", "4")
	b = after(t, b, approve(says("bob", "h-0", false)), all("7", task.Prepared, false))
	say("5", "")
}

// TestWhatAMemberWaitsFor changes, and its host says so, though no more often than is bounded, and not of assignments that were made before
// hosts could.
func TestWhatAMemberWaitsFor(t *testing.T) {
	for _, strict := range []bool{false, true} {
		b := waiting(t)
		b.Assignments["7"].Strict = strict
		for i := range 20 {
			if next, err := move(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Asked, Text: fmt.Sprint("waits for ", i)}}})(b); err == nil {
				b = next
			}
		}
		if m, want := b.Assignments["7"].Members[0], map[bool]string{true: "waits for 7", false: ""}[strict]; m.Text != want {
			t.Errorf("strict: %t: %+v, want %s", strict, m, want)
		}
		if b, err := approve(says("bob", "h-0", false))(b); err != nil || !b.Assignments["7"].Takes(1, task.Report{Node: "h-0", State: task.Asked, Text: "other"}) {
			t.Errorf("after an approval it may say no more: %v", err)
		}
	}
}

// TestWhyAStartTakesLong: a host may say so.
func TestWhyAStartTakesLong(t *testing.T) {
	b := waiting(t)
	b.Assignments["7"].Strict = true
	say := func(state task.State, words string) step {
		return move(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: state, Text: words}}})
	}
	b = after(t, b, all("7", task.Prepared, false), say(task.Prepared, "no"), do("7", task.Pass), say(task.Started, ""), say(task.Started, "no engine"), say(task.Started, "none"))
	if m := b.Assignments["7"].Members[0]; m.State != task.Started || m.Text != "none" {
		t.Errorf("%+v", m)
	}
	b = after(t, b, say(task.Ready, ""))
	if m := b.Assignments["7"].Members[0]; m.State != task.Ready || m.Text != "" {
		t.Errorf("%+v", m)
	}
}

// TestAWordOnNoAssignment names the commands by which whoever gives it finds the right one: a job has no taskrunner.
func TestAWordOnNoAssignment(t *testing.T) {
	for runner, want := range map[string]string{"": "swarmctl list jobs", task.DefaultTaskrunner: "swarmctl list taskrunners"} {
		_, err := jobs(t).Approve(task.Request{ID: "7", Task: "job", Taskrunner: runner}, task.Approval{Host: "h-0", By: "spiffe://a.example/swarm/swci"})
		i, ok := errors.AsType[*task.Refusal](err)
		if !ok || !strings.Contains(i.Remedy, want) {
			t.Errorf("taskrunner %q: %v", runner, err)
		}
	}
}
