package assign_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

// overfull says of which host members take more than it offers, or are beside one that has the host for itself; empty: of none.
func overfull(s *state.State) string {
	type load struct {
		cpus, gpus, members uint32
		all, alone          map[string]bool // assignments
		ports               map[uint32]int
	}
	hosts := map[string]*load{}
	for id, a := range s.Tasks.Whole().Assignments {
		begun := map[string]bool{}
		for _, m := range a.Members {
			first := !begun[m.Group]
			begun[m.Group] = true
			if m.Cleaned || !a.Live() {
				continue
			}
			l := hosts[m.Node]
			if l == nil {
				l = &load{all: map[string]bool{}, alone: map[string]bool{}, ports: map[uint32]int{}}
				hosts[m.Node] = l
			}
			l.members++
			if l.all[id] = true; !a.Shares {
				l.alone[id] = true
			}
			for _, g := range a.Groups {
				if g.Needs == (ledger.Needs{}) {
					l.alone[id] = true
				}
				if g.Name == m.Group {
					l.cpus, l.gpus = l.cpus+g.Needs.MilliCPU, l.gpus+g.Needs.GPUs
					for _, p := range g.Ports {
						l.ports[p]++
					}
					if first {
						for _, p := range g.FirstPorts {
							l.ports[p]++
						}
					}
				}
			}
		}
	}
	for host, l := range hosts {
		for p, n := range l.ports {
			if n > 1 {
				return fmt.Sprintf("%d members on %s listen to port %d, of %v", n, host, p, l.all)
			}
		}
		o := s.Nodes[host].Offer
		if l.cpus > o.CPUs*1000 || l.gpus > o.GPUs || l.members > task.MaxHosted || len(l.alone) > 0 && len(l.all) > 1 {
			return fmt.Sprintf("%s offers %d CPUs and %d GPUs, and members take %d and %d of %v, of which %v should be alone", host, o.CPUs, o.GPUs, l.cpus, l.gpus, l.all, l.alone)
		}
	}
	return ""
}

// TestJobsAreBesideEachOther as far as their hosts have what they need, and wait for the rest.
func TestJobsAreBesideEachOther(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		for i, h := range s.hosts {
			h.fate, h.cpus, h.gpus = hang, 8, uint32(1+3*i)
			h.listens(task.DefaultTaskrunner, 1)
		}
		needs := func(n ledger.Needs) func(*task.Request) {
			return func(q *task.Request) { q.Groups = []task.Group{{Name: "node", Peers: 2, Least: 2, Needs: n}} }
		}
		s.job("6", 0, needs(ledger.Needs{GPUs: 1}))
		s.job("7", 0, needs(ledger.Needs{GPUs: 1}))
		s.job("8", 0, needs(ledger.Needs{GPUs: 2, MilliCPU: 500}), func(q *task.Request) { q.TimeoutMS = 600_000 })
		s.job("9", 1) // takes whatever there is
		s.run(20 * time.Second)
		for id, want := range map[string]string{"6": "0 1", "7": "1 1"} {
			if a := s.assignment(id); a.Phase != task.Running || on(a) != want {
				t.Errorf("%s is %s, on %s, want %s: %s", id, a.Phase, on(a), want, a.Wants)
			}
		}
		for id, want := range map[string]string{
			"8": "hosts for 2 members with 0.5 CPUs, 2 GPUs each: swop-000 offers 1 GPU, swop-001 has 1 GPU left of 4 GPUs",
			"9": "hosts for 2 members: swop-000 is busy with assignment 6, swop-001 is busy with assignment 6",
		} {
			if a := s.assignment(id); a.Phase != task.Waiting || a.Wants != want {
				t.Errorf("%s is %s, and waits for %q", id, a.Phase, a.Wants)
			}
		}
		s.do(state.CancelAssignment{Assignment: "6", Reason: "enough"})
		s.do(state.CancelAssignment{Assignment: "7", Reason: "enough"})
		s.run(20 * time.Second)
		if a := s.assignment("8"); a.Phase != task.Running || on(a) != "1 1" {
			t.Errorf("8 is %s, on %s: %s", a.Phase, on(a), a.Wants)
		}
	})
}

// TestAJobThatNoHostCanHave waits as any other does, says so, and ends when its time is over.
func TestAJobThatNoHostCanHave(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate, h.cpus = serve(nil), 4
			h.listens(task.DefaultTaskrunner, 1)
		}
		s.job("7", 3, func(q *task.Request) {
			q.Together, q.TimeoutMS, q.Groups[0].Needs, q.Groups[1].Needs = true, 60_000, ledger.Needs{MilliCPU: 500}, ledger.Needs{MilliCPU: 1500}
		})
		const want = "one host for 4 members, of group worker each with 1.5 CPUs: swop-000 has room for 2, swop-001 has room for 2"
		if a := s.over("7", 5*time.Minute); a.End != task.EndNoCapacity || a.Reason != "timed out after 1m0s, waiting: "+want {
			t.Errorf("%s: %s", a.End, a.Reason)
		}
	})
}

// TestMembersThatListenToOnePort are on several hosts, or one waits for the other: of a job, and of two.
func TestMembersThatListenToOnePort(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate, h.cpus = hang, 8
			h.listens(task.DefaultTaskrunner, 1)
		}
		listens := func(members uint32, each, first []uint32) func(*task.Request) {
			return func(q *task.Request) {
				q.Groups = []task.Group{{Name: "node", Peers: members, Least: members, Needs: ledger.Needs{MilliCPU: 500}, Ports: each, FirstPorts: first}}
				q.TimeoutMS = 900_000
			}
		}
		s.job("5", 0, listens(2, nil, []uint32{29400})) // its second member does not listen to it
		s.job("6", 0, listens(2, nil, []uint32{29400}))
		s.job("7", 0, listens(1, nil, []uint32{29400}))
		s.job("8", 0, listens(2, []uint32{9000}, nil))
		s.job("9", 0, listens(3, []uint32{9001}, nil))
		s.run(20 * time.Second)
		for id, want := range map[string]string{"5": "0 1", "6": "1 0", "8": "0 1"} {
			if a := s.assignment(id); a.Phase != task.Running || on(a) != want {
				t.Errorf("%s is %s, on %s, want %s: %s", id, a.Phase, on(a), want, a.Wants)
			}
		}
		for id, want := range map[string]string{
			"7": "hosts for 1 member with 0.5 CPUs: swop-000 has a member of assignment 5 that listens to port 29400, swop-001 has a member of assignment 6 that listens to port 29400",
			"9": "hosts for 3 members with 0.5 CPUs each: swop-000 has room for 1, swop-001 has room for 1",
		} {
			if a := s.assignment(id); a.Phase != task.Waiting || a.Wants != want {
				t.Errorf("%s is %s, and waits for %q", id, a.Phase, a.Wants)
			}
		}
		s.do(state.CancelAssignment{Assignment: "5", Reason: "enough"})
		s.run(20 * time.Second)
		if a := s.assignment("7"); a.Phase != task.Running || on(a) != "0" {
			t.Errorf("7 is %s, on %s: %s", a.Phase, on(a), a.Wants)
		}
	})
}
