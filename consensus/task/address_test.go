package task_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

// TestMembersHaveAddresses: a host tells a member's own address with its preparation, signed, and never another one; they go when the job is over.
func TestMembersHaveAddresses(t *testing.T) {
	placed := func() *task.Board {
		return after(t, jobs(t), assigning(ofJob("7", task.JobTerms{})), onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0", "h-1"}}))
	}
	tells := func(s task.State, ip, signature string) step {
		return moveAt(20, task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: s, Address: task.Address{IP: ip, IPSignature: signature}}}})
	}
	want := task.Address{IP: "10.9.0.1", IPSignature: "c2ln"}
	b := after(t, placed(), tells(task.Prepared, want.IP, want.IPSignature))
	if m := b.Assignments["7"].Members[0]; m.Address != want || m.State != task.Prepared {
		t.Errorf("%+v", m)
	}
	if err := b.Check(nil); err != nil {
		t.Error(err)
	}
	if next, err := tells(task.Prepared, "10.9.0.2", "c2ln")(b); err != nil || next != b {
		t.Errorf("it is told another one: %v", err)
	}
	ended := after(t, b, moveAt(30, task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Exited, Code: 1}}}))
	if m := ended.Assignments["7"].Members[0]; m.Address != want {
		t.Errorf("one that has ended: %+v", m)
	}
	over := after(t, ended, judgedBy(task.EndMemberFailed, 40), moveAt(50, task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{
		{Node: "h-0", State: task.Exited, Cleaned: true}, {Member: 1, Node: "h-0", State: task.Stopped, Cleaned: true}, {Member: 2, Node: "h-1", State: task.Stopped, Cleaned: true},
	}, Do: task.Close}))
	if a := over.Assignments["7"]; a.Phase != task.Over || a.Members[0].Address != (task.Address{}) {
		t.Errorf("of a job that is over: %s, %+v", a.Phase, a.Members[0])
	}
	for name, s := range map[string]step{
		"no IP":          tells(task.Prepared, "node-0", "c2ln"),
		"a zone":         tells(task.Prepared, "fe80::1%eth0", "c2ln"),
		"no end":         tells(task.Prepared, strings.Repeat("1", 1<<10), "c2ln"),
		"unsigned":       tells(task.Prepared, "10.9.0.1", ""),
		"without an IP":  tells(task.Prepared, "", "c2ln"),
		"long signature": tells(task.Prepared, "10.9.0.1", strings.Repeat("x", 1<<10)),
		"too early":      tells(task.Asked, "10.9.0.1", "c2ln"),
	} {
		b := placed()
		if next, err := s(b); err != nil || next != b {
			t.Errorf("%s is taken: %v", name, err)
		}
	}
	bad := after(t, placed(), tells(task.Prepared, want.IP, want.IPSignature))
	bad.Assignments["7"].Members[0].IP = "x"
	if bad.Check(nil) == nil {
		t.Error("a board with a bad address is whole")
	}
}
