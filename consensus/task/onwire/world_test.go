package onwire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// placed is an assignment with members, as an SN shows it.
func placed() *swarmv1.Assignment {
	return &swarmv1.Assignment{Id: "7", Epoch: 2, Members: []*swarmv1.AssignmentMember{
		{Index: 0, Node: "h-0", Group: "main", Address: "10.0.0.1", OwnAddress: "10.9.0.1"}, {Index: 1, Node: "h-1", Group: "worker", Address: "fe80::1%eth0"}, {Index: 2, Node: "h-1", Group: "worker"},
	}}
}

// members are some on one host.
func members(n int) (all []*swarmv1.AssignmentMember) {
	for i := range n {
		all = append(all, &swarmv1.AssignmentMember{Index: uint32(i), Node: "h-0", Group: "main"})
	}
	return all
}

// TestWhereMembersAre: hosts are told it of the epoch that they ask for, and of no other.
func TestWhereMembersAre(t *testing.T) {
	got, is, err := onwire.World(placed(), "7", 2)
	want := []task.Site{{Node: "h-0", Group: "main", Address: "10.0.0.1", Own: "10.9.0.1"}, {Node: "h-1", Group: "worker", Address: "fe80::1%eth0"}, {Node: "h-1", Group: "worker"}}
	if d := cmp.Diff(want, got); d != "" || !is || err != nil {
		t.Errorf("%v: %v\n%s", is, err, d)
	}
	most := placed()
	most.Members = members(task.MaxHosted)
	if got, is, err := onwire.World(most, "7", 2); len(got) != task.MaxHosted || !is || err != nil {
		t.Errorf("as many on a host as may be: %d, %v: %v", len(got), is, err)
	}
	for _, epoch := range []uint32{1, 3} {
		if got, is, err := onwire.World(placed(), "7", epoch); got != nil || is || err != nil {
			t.Errorf("epoch %d: %v, %v: %v", epoch, got, is, err)
		}
	}
	for name, change := range map[string]func(a *swarmv1.Assignment){
		"another assignment":   func(a *swarmv1.Assignment) { a.Id = "8" },
		"nobody":               func(a *swarmv1.Assignment) { a.Members = nil },
		"too many":             func(a *swarmv1.Assignment) { a.Members = make([]*swarmv1.AssignmentMember, task.MaxMembers+1) },
		"too many on a host":   func(a *swarmv1.Assignment) { a.Members = members(task.MaxHosted + 1) },
		"no order":             func(a *swarmv1.Assignment) { a.Members[0], a.Members[1] = a.Members[1], a.Members[0] },
		"a path as a host":     func(a *swarmv1.Assignment) { a.Members[1].Node = "../h" },
		"no group":             func(a *swarmv1.Assignment) { a.Members[1].Group = "" },
		"two lines":            func(a *swarmv1.Assignment) { a.Members[1].Address = "10.0.0.1\n10.0.0.2 node-0" },
		"an address in quotes": func(a *swarmv1.Assignment) { a.Members[1].Address = `"` },
		"no IP of its own":     func(a *swarmv1.Assignment) { a.Members[0].OwnAddress = "h-0" },
		"a long address":       func(a *swarmv1.Assignment) { a.Members[1].Address = strings.Repeat("a", task.MaxAddress+1) },
	} {
		a := placed()
		change(a)
		if got, is, err := onwire.World(a, "7", 2); err == nil || is || got != nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
}

// TestAddressesThatAreShown: of what a node says it is reached at, hosts are told what they take.
func TestAddressesThatAreShown(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "fe80::1": "fe80::1", "ml-1.hospital_a.example": "ml-1.hospital_a.example", "": "", "a b": "", "a\n": "", "$(reboot)": "", "é.example": "",
		strings.Repeat("a", task.MaxAddress): strings.Repeat("a", task.MaxAddress), strings.Repeat("a", task.MaxAddress+1): "",
	} {
		if got := onwire.Address(host); got != want {
			t.Errorf("%q is shown as %q", host, got)
		}
	}
}

// FuzzWorld: what an SN shows is refused, of another epoch, or within bounds.
func FuzzWorld(f *testing.F) {
	raw, err := proto.Marshal(placed())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		a := &swarmv1.Assignment{}
		if proto.Unmarshal(raw, a) != nil {
			return
		}
		sites, is, err := onwire.World(a, "7", 2)
		if is != (len(sites) > 0) || is && err != nil || len(sites) > task.MaxMembers {
			t.Fatal(is, err, len(sites))
		}
		for _, s := range sites {
			if len(s.Address) > task.MaxAddress || strings.ContainsAny(s.Address+s.Node, " \n\x00/\"'") || s.Node == "" {
				t.Fatalf("taken: %+v", s)
			}
		}
	})
}
