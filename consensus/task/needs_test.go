package task_test

import (
	"encoding/json"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// TestNeeds are held to what a host can offer, and no other task has any.
func TestNeeds(t *testing.T) {
	b := jobs(t)
	of := func(n ledger.Needs) task.Request {
		return ofJob("7", task.JobTerms{}, task.Group{Name: "node", Peers: 1, Least: 1, Needs: n})
	}
	most := ledger.Needs{MilliCPU: 65_536_000, Memory: 1 << 50, GPUs: 1024, Disk: 1 << 50}
	for _, n := range []ledger.Needs{{}, {MilliCPU: 1}, most} {
		a := after(t, b, assigning(of(n))).Assignments["7"]
		if a.Groups[0].Needs != n || task.Modest(a) != (n.MilliCPU > 0) {
			t.Errorf("%+v: it needs %+v, and is modest: %v", n, a.Groups[0].Needs, task.Modest(a))
		}
	}
	ports := func(of ...uint32) task.Request {
		return ofJob("7", task.JobTerms{}, task.Group{Name: "node", Peers: 1, Least: 1, FirstPorts: of})
	}
	after(t, b, assigning(ports(1, 2, 3, 4, 5, 6, 7, 65535)))
	other := of(ledger.Needs{GPUs: 1})
	other.Task = "pull"
	for name, q := range map[string]task.Request{
		"CPUs":         of(ledger.Needs{MilliCPU: most.MilliCPU + 1}),
		"memory":       of(ledger.Needs{Memory: most.Memory + 1}),
		"GPUs":         of(ledger.Needs{GPUs: most.GPUs + 1}),
		"disk":         of(ledger.Needs{Disk: most.Disk + 1}),
		"another task": other,
		"port 0":       ports(0), "no port": ports(65536), "ports in no order": ports(2, 1), "a port twice": ports(1, 1), "too many ports": ports(1, 2, 3, 4, 5, 6, 7, 8, 9),
	} {
		t.Run(name, func(t *testing.T) { refused(t, b, task.Bad, assigning(q)) })
	}
}

// TestOnlyModestJobsShareHosts: whoever does not say what a member takes may take all of its host.
func TestOnlyModestJobsShareHosts(t *testing.T) {
	group := func(n ledger.Needs) task.Group { return task.Group{Name: "g", Needs: n} }
	for _, tt := range []struct {
		shares bool
		groups []task.Group
		want   bool
	}{
		{true, []task.Group{group(ledger.Needs{MilliCPU: 1}), group(ledger.Needs{GPUs: 1}), group(ledger.Needs{Memory: 1})}, true},
		{true, []task.Group{group(ledger.Needs{MilliCPU: 1}), group(ledger.Needs{Disk: 1})}, false},
		{true, []task.Group{group(ledger.Needs{})}, false},
		{false, []task.Group{group(ledger.Needs{MilliCPU: 1})}, false},
	} {
		if got := task.Modest(&task.Assignment{Shares: tt.shares, Request: task.Request{Groups: tt.groups}}); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestGroupsOfBefore have the bytes that they had, in the state and in the ledger.
func TestGroupsOfBefore(t *testing.T) {
	for _, g := range []any{task.Group{Name: "peers", Peers: 2, Least: 1}, ledger.Group{Name: "peers", Peers: 2, Least: 1}} {
		if raw, err := json.Marshal(g); err != nil || string(raw) != `{"name":"peers","peers":2,"least":1}` {
			t.Errorf("%T: %s, %v", g, raw, err)
		}
	}
	if raw, err := json.Marshal(ledger.Group{Name: "node", Peers: 1, Needs: ledger.Needs{MilliCPU: 500, GPUs: 2}}); err != nil || string(raw) != `{"name":"node","peers":1,"needs":{"milli_cpu":500,"gpus":2}}` {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestNeedsWords(t *testing.T) {
	for want, n := range map[string]ledger.Needs{
		"": {}, "1 CPU": {MilliCPU: 1000}, "0.25 CPUs, 1 GPU": {MilliCPU: 250, GPUs: 1}, "64.42 GB of memory, 2 GPUs, 999 bytes of disk": {Memory: 60 << 30, GPUs: 2, Disk: 999},
	} {
		if got := task.NeedsWords(n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
