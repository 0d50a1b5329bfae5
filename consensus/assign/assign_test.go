package assign_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/assign"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

func TestAssignmentRunsToItsEnd(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		s.assign("7", 3)
		a := s.over("7", time.Minute)
		if a.Verdict != task.Succeeded || len(a.Members) != 3 || a.Epoch != 1 {
			t.Errorf("assignment %+v", a)
		}
		s.assign("8", 1) // the taskrunner and the hosts are free again
		s.over("8", time.Minute)
	})
}

// TestFewEntriesForManyHosts: what 100 hosts report is committed together.
func TestFewEntriesForManyHosts(t *testing.T) {
	inSwarm(t, 100, func(s *swarm) {
		before := s.log.entries
		s.assign("7", 100)
		if a := s.over("7", 2*time.Minute); a.Verdict != task.Succeeded {
			t.Errorf("assignment %+v", a)
		}
		entries := float64(s.log.entries-before) / 100
		t.Logf("%.2f entries of the log for each member", entries)
		if entries > 4 {
			t.Errorf("%.2f entries of the log for each member, want at most 4", entries)
		}
	})
}

// TestWaitsForHosts and says how many are missing.
func TestWaitsForHosts(t *testing.T) {
	inSwarm(t, 1, func(s *swarm) {
		s.assign("7", 2)
		s.run(5 * time.Second)
		if a := s.assignment("7"); a.Phase != task.Waiting || a.Wants != "1 more of 2 peers on taskrunner "+task.DefaultTaskrunner {
			t.Errorf("%s, waits for %q", a.Phase, a.Wants)
		}
		late := &host{swarm: s, name: "swop-late", rng: rand.New(rand.NewPCG(1, 1)), up: true, linked: true, heard: time.Now(), has: map[key]*program{}}
		s.hosts = append(s.hosts, late)
		late.listens(task.DefaultTaskrunner, 1)
		if a := s.over("7", time.Minute); a.Verdict != task.Succeeded {
			t.Errorf("assignment %+v", a)
		}
	})
}

// TestEveryFailureHasItsReason: whatever happens to a host, the assignment ends with one line that names it.
func TestEveryFailureHasItsReason(t *testing.T) {
	for name, tt := range map[string]struct {
		fate   func(h *host, k key, p *program)
		after  func(s *swarm) // a while after the assignment
		change func(q *task.Request)
		want   string
	}{
		"refused": {
			fate: func(_ *host, _ key, p *program) {
				p.state, p.text = task.Refused, "the owner's policy allows no such image"
			},
			want: "swop-000 refused: the owner's policy allows no such image",
		},
		"preparing fails": {
			fate: func(_ *host, _ key, p *program) { p.state, p.code, p.text = task.Exited, -1, "no space left" },
			want: "swop-000 failed: no space left",
		},
		"program fails": {
			fate: func(_ *host, _ key, p *program) {
				if p.state == task.Exited {
					p.code, p.text = 3, "boom\x1b[31m\nat line 4"
				}
			},
			want: "swop-000 exited with code 3: boom at line 4",
		},
		"host dies":       {after: func(s *swarm) { s.hosts[0].up = false }, want: "swop-000 was lost: it is not heard any more"},
		"host is banned":  {after: func(s *swarm) { s.do(state.BanNode{PeerID: "key-swop-000", By: operator}) }, want: "swop-000 was lost: it was banned"},
		"program hangs":   {fate: hang, change: func(q *task.Request) { q.TimeoutMS = 60_000 }, want: "timed out after 1m0s: swop-000 is ready"},
		"no host is left": {after: func(s *swarm) { s.do(state.ResetTaskrunner{Taskrunner: task.DefaultTaskrunner, Reason: "enough"}) }, want: "enough"},
	} {
		t.Run(name, func(t *testing.T) {
			inSwarm(t, 1, func(s *swarm) {
				s.hosts[0].fate = tt.fate
				if tt.after != nil {
					s.hosts[0].fate = hang
				}
				if tt.change == nil {
					tt.change = func(*task.Request) {}
				}
				s.assign("7", 1, tt.change)
				s.run(20 * time.Second)
				if tt.after != nil {
					tt.after(s)
				}
				a := s.over("7", 3*time.Minute)
				if a.Verdict == task.Succeeded || a.Reason != tt.want {
					t.Errorf("verdict %s: %q, want %q", a.Verdict, a.Reason, tt.want)
				}
			})
		})
	}
}

// hang keeps programs from ending.
func hang(_ *host, _ key, p *program) {
	if p.state == task.Exited {
		p.state = task.Ready
	}
}

// TestQuorumOfPeers: an assignment succeeds when as many have as must; hosts count for as many peers as they offer.
func TestQuorumOfPeers(t *testing.T) {
	inSwarm(t, 4, func(s *swarm) {
		s.hosts[1].fate = func(_ *host, _ key, p *program) {
			if p.state == task.Exited {
				p.code = 1
			}
		}
		s.assign("7", 3, func(q *task.Request) { q.Groups[0].Least = 2 })
		if a := s.over("7", time.Minute); a.Verdict != task.Succeeded || len(a.Members) != 3 {
			t.Errorf("assignment %+v", a)
		}
		s.hosts[0].listens(task.DefaultTaskrunner, 3) // in a task that pulls images it is one all the same
		s.assign("8", 4, func(q *task.Request) { q.Groups[0].Least = 1 })
		if a := s.over("8", time.Minute); a.Verdict != task.Succeeded || len(a.Members) != 4 {
			t.Errorf("assignment %+v", a)
		}
		s.do(state.CreateTask{Task: "swarm", TaskType: task.RunSwarm, Prereq: "work"})
		s.do(state.EditTask{Task: "swarm", Line: 1, Text: []byte("Command: x")})
		s.do(state.FinaliseTask{Task: "swarm"})
		s.assign("9", 4, func(q *task.Request) { q.Task, q.Groups[0].Least = "swarm", 3 })
		if a := s.over("9", time.Minute); a.Verdict != task.Succeeded || len(a.Members) != 2 || a.Members[0].Peers != 3 {
			t.Errorf("assignment %+v", a)
		}
	})
}

// TestAHostJoinsATaskrunner: it is placed, prepared and started beside those that run, and ends with them if they fail.
func TestAHostJoinsATaskrunner(t *testing.T) {
	for _, fails := range []bool{false, true} {
		inSwarm(t, 2, func(s *swarm) {
			s.hosts[0].fate = hang
			s.assign("7", 1)
			s.run(20 * time.Second)
			if fails {
				s.hosts[1].fate = hang
			}
			s.assign("8", 1, func(q *task.Request) { q.Joins, q.Hosts = "7", []string{"swop-001"} })
			if !fails {
				if a := s.over("8", 5*time.Minute); a.Verdict != task.Succeeded || a.Members[0].Node != "swop-001" || s.assignment("7").Phase != task.Running {
					t.Errorf("assignment %+v", a)
				}
				s.do(state.ResetTaskrunner{Taskrunner: task.DefaultTaskrunner, Reason: "enough"})
				return
			}
			s.run(20 * time.Second)
			if a := s.assignment("8"); a.Phase != task.Running || a.Members[0].State != task.Ready {
				t.Errorf("assignment %+v", a)
			}
			s.hosts[0].up = false
			if a := s.over("8", 5*time.Minute); a.Verdict != task.Failed || a.Reason != "assignment 7, which it joined, has ended" {
				t.Errorf("assignment %+v", a)
			}
		})
	}
}

// TestWhoJoinsTooLate: what has not started when the other one has succeeded is ended, so that the taskrunner is idle.
func TestWhoJoinsTooLate(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		s.hosts[0].fate, s.hosts[1].up = hang, false
		s.assign("7", 1)
		s.run(20 * time.Second)
		s.assign("8", 1, func(q *task.Request) { q.Joins, q.Hosts = "7", []string{"swop-001"} })
		s.run(20 * time.Second)
		if a := s.assignment("8"); a.Phase != task.Waiting {
			t.Fatalf("assignment %+v", a)
		}
		s.hosts[0].fate = nil
		if a := s.over("7", 5*time.Minute); a.Verdict != task.Succeeded {
			t.Fatalf("assignment %+v", a)
		}
		if a := s.over("8", time.Minute); a.Verdict != task.Failed || a.Reason != "assignment 7, which it joined, has ended" {
			t.Errorf("assignment %+v", a)
		}
	})
}

// TestNextEpochGoesAroundWhoFailed: a host that refuses or dies is replaced, and nothing of the old epoch runs beside the new one.
func TestNextEpochGoesAroundWhoFailed(t *testing.T) {
	inSwarm(t, 4, func(s *swarm) {
		s.hosts[0].fate = func(_ *host, _ key, p *program) { p.state, p.text = task.Refused, "no" }
		s.hosts[2].fate = hang
		s.assign("7", 2, func(q *task.Request) { q.Retries = 3 })
		s.run(30 * time.Second)
		a := s.assignment("7")
		if a.Epoch != 2 || a.Phase != task.Running || a.Members[0].Node != "swop-001" || len(a.Avoid) != 1 {
			t.Fatalf("assignment %+v", a)
		}
		s.hosts[2].linked = false // its program runs on until its lease is over
		s.run(40 * time.Second)
		if a = s.assignment("7"); a.Phase != task.Waiting || a.Epoch != 2 {
			t.Errorf("before the lease is over: %s in epoch %d", a.Phase, a.Epoch)
		}
		if a = s.over("7", 2*time.Minute); a.Verdict != task.Succeeded || a.Epoch != 3 || a.Members[1].Node != "swop-003" {
			t.Errorf("assignment %+v", a)
		}
	})
}

// TestNamedHosts are the only ones, and when too many of them refuse there is nothing to wait for.
func TestNamedHosts(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		s.hosts[2].fate = func(_ *host, _ key, p *program) { p.state, p.text = task.Refused, "no" }
		only := func(q *task.Request) { q.Taskrunner, q.Hosts, q.Retries = "", []string{"swop-002"}, 2 }
		s.assign("7", 1, only)
		a := s.over("7", time.Minute)
		if a.Verdict != task.Failed || a.Reason != "too few of the hosts that were named can take it: swop-002 refused: no" {
			t.Errorf("verdict %s: %s", a.Verdict, a.Reason)
		}
		soon := time.Now().Add(10 * time.Second).UnixMilli()
		s.assign("9", 1, only, func(q *task.Request) { q.Hosts, q.ExpiresMS = []string{"nobody"}, soon })
		if a := s.over("9", time.Minute); a.Reason != "expired before it was placed, waiting: 1 more of 1 peers on the hosts that were named" {
			t.Errorf("verdict %s: %s", a.Verdict, a.Reason)
		}
		s.assign("8", 1, only, func(q *task.Request) { q.Hosts, q.TimeoutMS = []string{"nobody"}, 30_000 })
		if a := s.over("8", time.Minute); a.Reason != "timed out after 30s, waiting: 1 more of 1 peers on the hosts that were named" {
			t.Errorf("verdict %s: %s", a.Verdict, a.Reason)
		}
	})
}

// TestHostIsInOneAssignmentAtATime: others wait until it is cleaned up.
func TestHostIsInOneAssignmentAtATime(t *testing.T) {
	inSwarm(t, 1, func(s *swarm) {
		here := func(q *task.Request) { q.Taskrunner, q.Hosts = "", []string{"swop-000"} }
		s.assign("7", 1, here)
		s.assign("8", 1, here)
		s.run(3 * time.Second)
		if a, b := s.assignment("7"), s.assignment("8"); a.Phase == task.Waiting || b.Phase != task.Waiting {
			t.Errorf("phases %s and %s", a.Phase, b.Phase)
		}
		s.over("7", time.Minute)
		s.over("8", time.Minute)
	})
}

// TestNewLeaderTrustsNoLeaseOfAnother: it counts from its own beginning, whatever its clock says of what others committed.
func TestNewLeaderTrustsNoLeaseOfAnother(t *testing.T) {
	inSwarm(t, 1, func(s *swarm) {
		s.hosts[0].fate = hang
		s.assign("7", 1)
		s.run(20 * time.Second)
		s.hosts[0].linked = false
		s.run(15 * time.Second)
		a := s.assignment("7")
		if a.Phase != task.Ending || a.Members[0].LostMS == 0 {
			t.Fatalf("assignment %+v", a)
		}
		in := assign.Inputs{Now: time.UnixMilli(a.Members[0].LostMS + 10*task.SettleMS), View: s.log.View()}
		in.Since = in.Now.Add(-(task.SettleMS - 1) * time.Millisecond)
		if moves := assign.Decide(in); len(moves) != 0 {
			t.Errorf("a new leader moves %+v", moves)
		}
		in.Since = in.Now.Add(-task.SettleMS * time.Millisecond)
		if moves := assign.Decide(in); len(moves) != 1 || moves[0].Do != task.Close {
			t.Errorf("a lease later it moves %+v", moves)
		}
	})
}

// TestNothingToDo: without tasks nothing is proposed, and nothing of a host that is unknown is kept.
func TestNothingToDo(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		before := s.log.entries
		s.servers[0].scheduler.Record(assign.HostReport{Node: "stranger", Members: make([]assign.MemberReport, 10_000)})
		s.servers[0].scheduler.Record(assign.HostReport{Node: "swop-000", Members: []assign.MemberReport{{Assignment: "7", Report: task.Report{State: task.Lost}}}})
		s.run(time.Minute)
		if s.log.entries != before {
			t.Errorf("%d entries of the log", s.log.entries-before)
		}
		if moves := assign.Decide(assign.Inputs{View: state.New()}); moves != nil {
			t.Errorf("moves %+v", moves)
		}
	})
}

// TestHostCannotSayThatItIsLost or speak of another's member.
func TestHostCannotSayThatItIsLost(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		s.hosts[0].fate, s.hosts[1].fate = hang, hang
		s.assign("7", 2)
		s.run(30 * time.Second)
		liar := assign.HostReport{Node: "swop-001"}
		for i := range uint32(2) {
			liar.Members = append(liar.Members, assign.MemberReport{Assignment: "7", Epoch: 1, Report: task.Report{Member: i, Node: "swop-000", State: task.Lost}})
		}
		liar.Members = append(liar.Members, assign.MemberReport{Assignment: "7", Epoch: 1, Report: task.Report{Member: 0, Node: "swop-000", State: task.Exited, Code: 1}})
		s.servers[0].scheduler.Record(liar)
		s.hosts[1].up = false // so that its lie stays
		pass(2 * time.Second)
		if a := s.assignment("7"); a.Phase != task.Running || a.Members[0].State != task.Ready || a.Members[1].State != task.Ready {
			t.Errorf("assignment %+v", a)
		}
	})
}

// TestSignedOfAnotherPart: a host that was shown another group or other peers than its member has is believed, and what it has signed is not kept.
func TestSignedOfAnotherPart(t *testing.T) {
	inSwarm(t, 4, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate = hang
		}
		s.assign("7", 4)
		s.run(30 * time.Second)
		said := func(i uint32, group string, peers uint32) {
			s.hosts[i].up = false // so that it says nothing else
			s.servers[0].scheduler.Record(assign.HostReport{Node: s.hosts[i].name, Members: []assign.MemberReport{{
				Assignment: "7", Epoch: 1, Group: group, Peers: peers, Report: task.Report{Member: i, State: task.Exited, Code: 1, Signature: fmt.Sprint("signed", i)},
			}}})
		}
		group := s.assignment("7").Members[0].Group
		said(0, group, 1)
		said(1, "others", 1)
		said(2, group, 2)
		said(3, "", 0) // a host of before
		pass(2 * time.Second)
		for i, want := range []string{"signed0", "", "", "signed3"} {
			if m := s.assignment("7").Members[i]; m.State != task.Exited || m.Code != 1 || m.Signature != want {
				t.Errorf("member %+v, want the signature %q", m, want)
			}
		}
	})
}

// TestChaos has hosts die, hang, refuse, fail and lose their links, leaders change and operators reset, all at random: there is one
// history, no two epochs run at a time, and every assignment is over in the end, with one verdict.
func TestChaos(t *testing.T) {
	verdicts, epochs := map[task.Verdict]int{}, uint32(0)
	for seed := range uint64(4) {
		inSwarm(t, 30, func(s *swarm) {
			rng := rand.New(rand.NewPCG(seed, 18))
			trouble := true
			for i, h := range s.hosts {
				h.fate = func(h *host, _ key, p *program) { doom(h, p, trouble) }
				h.listens(fmt.Sprint("tr-", i%4), 1)
			}
			var ids []string
			for i := range 40 {
				id := fmt.Sprint(i + 1)
				q := task.Request{ID: id, Task: "work", Taskrunner: fmt.Sprint("tr-", i%4), Retries: uint32(rng.IntN(4)), TimeoutMS: int64(rng.IntN(3)) * 300_000, InOrder: rng.IntN(2) == 0}
				q.Groups = []task.Group{{Name: "main", Peers: 1 + uint32(rng.IntN(4)), Least: 1}, {Name: "more", Peers: 1 + uint32(rng.IntN(3)), Least: uint32(rng.IntN(2))}}
				if i%4 == 0 {
					q.Hosts = []string{s.hosts[rng.IntN(10)].name, s.hosts[10+rng.IntN(10)].name, s.hosts[20+rng.IntN(10)].name}
				}
				s.do(state.CreateTaskrunner{Taskrunner: q.Taskrunner})
				if _, err := s.log.apply(state.AssignTask{Assignment: q, AtMS: time.Now().UnixMilli(), Strict: true}); err == nil {
					ids = append(ids, id)
				} else if state.ReasonOf(err) != state.ReasonTaskrunnerBusy {
					t.Fatal(err)
				}
				s.misfortune(rng)
				s.run(time.Duration(rng.IntN(30)) * time.Second)
			}
			trouble = false
			for _, h := range s.hosts {
				h.up, h.linked = true, true
			}
			s.lead(0)
			s.run(time.Minute)
			for i := range 4 { // those without a timeout may wait for ever
				s.do(state.ResetTaskrunner{Taskrunner: fmt.Sprint("tr-", i), Reason: "enough", AtMS: time.Now().UnixMilli()})
			}
			for _, id := range ids {
				a := s.over(id, 10*time.Minute)
				verdicts[a.Verdict]++
				epochs = max(epochs, a.Epoch)
				if a.Verdict != task.Succeeded && strings.TrimSpace(a.Reason) == "" {
					t.Errorf("seed %d: assignment %s %s without a reason", seed, id, a.Verdict)
				}
			}
			s.run(2 * time.Second)
			for _, h := range s.hosts {
				if len(h.has) > 0 {
					t.Errorf("seed %d: %s has still %v", seed, h.name, h.has)
				}
			}
		})
	}
	t.Logf("verdicts %v, at most %d epochs", verdicts, epochs)
	if verdicts[task.Succeeded] < 10 || verdicts[task.Failed] < 10 || epochs < 2 {
		t.Errorf("verdicts %v, at most %d epochs: the faults are too few or too many", verdicts, epochs)
	}
}

// doom is what comes of programs at random.
func doom(h *host, p *program, trouble bool) {
	switch what := h.rng.IntN(40); {
	case !trouble:
	case what == 0 && p.state == task.Prepared:
		p.state, p.text = task.Refused, "the owner is asked and refuses"
	case what < 3:
		p.state, p.code, p.text = task.Exited, int32(what+1), "failed"
	case what < 5:
		p.until = time.Now().Add(time.Hour) // hangs
	}
}

// misfortune is one fault.
func (s *swarm) misfortune(rng *rand.Rand) {
	h := s.hosts[rng.IntN(len(s.hosts))]
	switch rng.IntN(8) {
	case 0:
		h.up = !h.up
		clear(h.has) // the machine went down
	case 1, 2:
		h.linked = !h.linked
	case 3:
		s.lead(rng.IntN(3) - 1)
	case 4:
		if r := fmt.Sprint("tr-", rng.IntN(4)); s.log.View().Tasks.Taskrunner(r) != nil {
			s.do(state.ResetTaskrunner{Taskrunner: r, Reason: "an operator", AtMS: time.Now().UnixMilli()})
		}
	case 5:
		h.up, h.linked = true, true
	}
}
