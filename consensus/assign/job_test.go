package assign_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

// job hands the job to all hosts: a main program, and workers for it.
func (s *swarm) job(id string, workers uint32, change ...func(q *task.Request)) {
	s.t.Helper()
	q := task.Request{ID: id, Task: "job", By: operator, Groups: []task.Group{{Name: "main", Peers: 1, Least: 1}, {Name: "worker", Peers: workers}}}
	for _, h := range s.hosts {
		q.Hosts = append(q.Hosts, h.name)
	}
	for _, c := range change {
		c(&q)
	}
	s.do(state.AssignTask{Assignment: q, AtMS: time.Now().UnixMilli(), Whole: true, Detailed: true, Strict: true})
}

// serve has workers run until they are ended, and the main program go on as after says; nil: to its end.
func serve(main func(h *host, p *program)) func(h *host, k key, p *program) {
	return func(h *host, k key, p *program) {
		if k.member > 0 {
			hang(h, k, p)
		} else if main != nil {
			main(h, p)
		}
	}
}

// stuck has all members run until they are ended, of which one is never ready.
func stuck(member int) func(h *host, k key, p *program) {
	return func(h *host, k key, p *program) {
		if hang(h, k, p); k.member == member && p.state == task.Ready {
			p.state, p.text = task.Started, "waits for node-0"
		}
	}
}

// on is where the members of an assignment are, by the number of their hosts.
func on(a *task.Assignment) string {
	var all []string
	for _, m := range a.Members {
		all = append(all, strings.TrimPrefix(m.Node, "swop-00"))
	}
	return strings.Join(all, " ")
}

// TestMembersOfAJobTakeTurns on the hosts, in the order of their names, or are together.
func TestMembersOfAJobTakeTurns(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate = serve(nil)
		}
		s.job("7", 4)
		if a := s.over("7", time.Minute); a.Verdict != task.Succeeded || a.End != task.EndEntryDone || on(a) != "0 1 2 0 1" {
			t.Errorf("on %s: %+v", on(a), a)
		}
		s.job("8", 4, func(q *task.Request) { q.Together, q.InOrder = true, true })
		if a := s.over("8", 2*time.Minute); a.End != task.EndEntryDone || on(a) != "0 0 0 0 0" {
			t.Errorf("on %s: %+v", on(a), a)
		}
		s.job("9", 1, func(q *task.Request) { q.Taskrunner, q.Hosts = task.DefaultTaskrunner, nil })
		if a := s.over("9", time.Minute); a.End != task.EndEntryDone || on(a) != "0 1" {
			t.Errorf("on %s: %+v", on(a), a)
		}
	})
}

// TestAJobWaitsForHosts and says what each of them is doing.
func TestAJobWaitsForHosts(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		s.hosts[0].fate, s.hosts[1].up = hang, false
		s.run(10 * time.Second)
		s.assign("6", 1)
		s.run(5 * time.Second)
		s.job("7", 1, func(q *task.Request) { q.Hosts, q.TimeoutMS = append(q.Hosts, "swop-nobody"), 20_000 })
		s.run(5 * time.Second)
		want := "hosts for 2 members: swop-000 is busy with assignment 6, swop-001 is not heard, swop-nobody is no node of the swarm"
		if a := s.assignment("7"); a.Phase != task.Waiting || a.Wants != want {
			t.Errorf("%s, waits for %q", a.Phase, a.Wants)
		}
		if a := s.over("7", time.Minute); a.End != task.EndNoCapacity || a.Reason != "timed out after 20s, waiting: "+want {
			t.Errorf("%s: %s", a.End, a.Reason)
		}
		soon := time.Now().Add(10 * time.Second).UnixMilli()
		s.job("8", 1, func(q *task.Request) { q.ExpiresMS = soon })
		if a := s.over("8", time.Minute); a.End != task.EndNoCapacity || a.Verdict != task.Failed {
			t.Errorf("%s: %s", a.End, a.Reason)
		}
	})
}

// TestHostsThatTakeNoJobs are given none: of an older version, they would refuse it and end it for all.
func TestHostsThatTakeNoJobs(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate = serve(nil)
		}
		s.hosts[0].jobs = ""
		s.hosts[0].listens(task.DefaultTaskrunner, 1)
		s.job("7", 3)
		if a := s.over("7", time.Minute); a.End != task.EndEntryDone || on(a) != "1 2 1 2" {
			t.Errorf("on %s: %+v", on(a), a)
		}
		s.job("8", 1, func(q *task.Request) { q.Hosts = q.Hosts[:1] })
		s.run(5 * time.Second)
		if a := s.assignment("8"); a.Wants != "hosts for 2 members: swop-000 takes no jobs" {
			t.Errorf("it waits for %q", a.Wants)
		}
	})
}

// TestEveryEndOfAJob: whatever happens to it, it has one end, and one line that says why.
func TestEveryEndOfAJob(t *testing.T) {
	exits := func(member int, code int32) func(h *host, k key, p *program) {
		return func(h *host, k key, p *program) {
			if p.state == task.Exited && k.member != member {
				p.state = task.Ready
			}
			if k.member == member {
				p.code = map[bool]int32{true: code}[p.state == task.Exited]
			}
		}
	}
	for name, tt := range map[string]struct {
		fate   func(h *host, k key, p *program)
		after  func(s *swarm) // a while after the job began
		change func(q *task.Request)
		end    task.End
		why    string
	}{
		"its main program ends": {fate: serve(nil), end: task.EndEntryDone},
		"its main program fails": {
			fate: exits(0, 3), end: task.EndMemberFailed, why: "member 0 (main) on swop-000 exited with code 3",
		},
		"a worker ends": {
			fate: exits(1, 0), end: task.EndMemberFailed, why: "member 1 (worker) on swop-001 exited with code 0 while the others needed it",
		},
		"it has lived": {
			fate: serve(nil), end: task.EndTTL, change: func(q *task.Request) { q.LivesMS = 30_000 },
		},
		"a cluster for others has lived": {
			fate: hang, end: task.EndTTL, change: func(q *task.Request) { q.LivesMS, q.Groups = 30_000, q.Groups[1:] },
		},
		"a cluster for others loses a worker": {
			fate: exits(1, 0), end: task.EndMemberFailed, why: "member 1 (worker) on swop-001 exited with code 0 while the others needed it",
			change: func(q *task.Request) { q.LivesMS, q.Groups = 300_000, q.Groups[1:] },
		},
		"its main program is not ready": {
			fate: stuck(0), end: task.EndMainTimeout, why: "not ready after 40s: member 0 (main) on swop-000 is started: waits for node-0",
			change: func(q *task.Request) { q.ReadyMS = 40_000 },
		},
		"a worker is not ready": {
			fate: stuck(2), end: task.EndReadyTimeout, why: "not ready after 40s: member 2 (worker) on swop-000 is started: waits for node-0",
			change: func(q *task.Request) { q.ReadyMS = 40_000 },
		},
		"it takes too long": {
			fate: hang, end: task.EndMaxRuntime, why: "timed out after 1m0s: swop-000 is ready", change: func(q *task.Request) { q.TimeoutMS, q.ReadyMS = 60_000, 40_000 },
		},
		"an operator": {
			fate: hang, end: task.EndCancelled, why: "enough", after: func(s *swarm) { s.do(state.CancelAssignment{Assignment: "7", Reason: "enough"}) },
		},
		"a host sees a stop file": {
			fate: func(h *host, k key, p *program) {
				if hang(h, k, p); k.member == 2 && p.state == task.Ready {
					p.asks = task.AskStop
				}
			},
			end: task.EndStopFile, change: func(q *task.Request) { q.Stops = true },
		},
		"a host is lost": {
			fate: hang, end: task.EndHostLost, why: "member 1 (worker) on swop-001 was lost: it is not heard any more", after: func(s *swarm) { s.hosts[1].up = false },
		},
		"a host refuses": {
			fate: func(h *host, _ key, p *program) {
				if h.name == "swop-001" {
					p.state, p.text = task.Refused, "not here"
				}
			},
			end: task.EndRefused, why: "member 1 (worker) on swop-001 refused: not here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSwarm(t, 2, func(s *swarm) {
				for _, h := range s.hosts {
					h.fate = tt.fate
				}
				s.job("7", 2, func(q *task.Request) {
					if tt.change != nil {
						tt.change(q)
					}
				})
				s.run(20 * time.Second)
				if tt.after != nil {
					tt.after(s)
				}
				a := s.over("7", 5*time.Minute)
				if a.End != tt.end || a.Verdict != tt.end.Verdict() || a.Reason != tt.why {
					t.Errorf("%s, %s: %q; want %s: %q", a.End, a.Verdict, a.Reason, tt.end, tt.why)
				}
			})
		})
	}
}

// TestAProgramEndsWhatServedIt just before it ends itself: the job is done. If it goes on without them the job has failed.
func TestAProgramEndsWhatServedIt(t *testing.T) {
	for name, tt := range map[string]struct {
		later time.Duration
		code  int32 // of the worker
		end   task.End
	}{
		"and ends":              {2 * time.Second, 0, task.EndEntryDone},
		"and goes on":           {20 * time.Second, 0, task.EndMemberFailed},
		"and they end in error": {2 * time.Second, 1, task.EndMemberFailed},
	} {
		t.Run(name, func(t *testing.T) {
			inSwarm(t, 2, func(s *swarm) {
				var parted time.Time
				for _, h := range s.hosts {
					h.fate = func(_ *host, k key, p *program) {
						switch {
						case p.state == task.Exited && k.member == 1:
							parted, p.code = time.Now(), tt.code
						case p.state == task.Exited && (parted.IsZero() || time.Since(parted) < tt.later):
							p.state, p.until = task.Ready, time.Now()
						}
					}
				}
				s.job("7", 1)
				if a := s.over("7", 2*time.Minute); a.End != tt.end {
					t.Errorf("%s: %s", a.End, a.Reason)
				}
			})
		})
	}
}

// TestAJobBeginsAgain without the host that refused, and without whom it has lost, from its first barrier; what all refuse has failed.
func TestAJobBeginsAgain(t *testing.T) {
	refuses := func(_ *host, _ key, p *program) { p.state, p.text = task.Refused, "not here" }
	inSwarm(t, 4, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate = hang
		}
		s.hosts[0].fate = refuses
		s.job("7", 2, func(q *task.Request) { q.Retries = 2 })
		s.run(30 * time.Second)
		if a := s.assignment("7"); a.Epoch != 2 || on(a) != "1 2 3" || a.ReadySinceMS == 0 {
			t.Fatalf("on %s: %+v", on(a), a)
		}
		s.hosts[2].linked = false // its program runs on until its lease is over
		s.run(20 * time.Second)
		for _, h := range s.hosts[1:] {
			h.fate = serve(nil)
		}
		if a := s.over("7", 3*time.Minute); a.Epoch != 3 || on(a) != "1 3 1" || a.End != task.EndEntryDone {
			t.Errorf("on %s: %+v", on(a), a)
		}
		s.hosts[2].linked = true
		for _, h := range s.hosts {
			h.fate = refuses
		}
		s.job("8", 2, func(q *task.Request) { q.Retries, q.Hosts = 2, q.Hosts[:2] })
		if a := s.over("8", 3*time.Minute); a.End != task.EndRefused || !strings.HasPrefix(a.Reason, "too few of the hosts that were named can take it: member 1 (worker) on swop-001 refused: not here") {
			t.Errorf("%s: %s", a.End, a.Reason)
		}
	})
}

// TestAJobThatHasExpired is placed anew on hosts that had a part of it, as no other begins it any more, and in the end it has failed as its last epoch
// did. Without a time-out no host would begin it again: it has failed then.
func TestAJobThatHasExpired(t *testing.T) {
	inSwarm(t, 4, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate = hang
		}
		s.job("7", 1, func(q *task.Request) {
			q.Retries, q.TimeoutMS, q.ExpiresMS = 5, 400_000, time.Now().UnixMilli()+20_000
		})
		s.run(30 * time.Second)
		s.hosts[1].linked = false
		s.run(150 * time.Second)
		if a := s.assignment("7"); a.Epoch != 2 || on(a) != "0 0" || a.LastEnd != "" {
			t.Fatalf("on %s: %+v", on(a), a)
		}
		s.hosts[0].up = false
		const want = "member 1 (worker) on swop-000 was lost: it is not heard any more; not placed anew: timed out after 6m40s, waiting: hosts for 2 members: swop-000 is not heard, swop-001 had no part of it just before"
		if a := s.over("7", 5*time.Minute); a.End != task.EndHostLost || !strings.HasPrefix(a.Reason, want) {
			t.Errorf("%s: %s", a.End, a.Reason)
		}
		s.hosts[2].fate = func(_ *host, _ key, p *program) {
			if p.state == task.Exited {
				p.code = 3
			}
		}
		s.job("8", 0, func(q *task.Request) {
			q.Retries, q.ExpiresMS, q.Hosts, q.Groups = 5, time.Now().UnixMilli()+1000, q.Hosts[2:3], q.Groups[:1]
		})
		if a := s.over("8", 2*time.Minute); a.Epoch != 1 || a.End != task.EndMemberFailed || a.Reason != "member 0 (main) on swop-002 exited with code 3" {
			t.Errorf("%s in epoch %d: %s", a.End, a.Epoch, a.Reason)
		}
	})
}

// TestAJobWaitsForWhomItCounts: the third of a group is waited for if all must be done, though two are enough, and those of other groups are not if
// the main one is.
func TestAJobWaitsForWhomItCounts(t *testing.T) {
	for done, want := range map[string]string{task.DoneAll: "exited exited exited exited", task.DoneMain: "exited stopped stopped stopped", task.DoneAny: "exited stopped stopped stopped"} {
		inSwarm(t, 4, func(s *swarm) {
			for _, h := range s.hosts {
				h.fate = func(_ *host, k key, p *program) {
					if p.state == task.Ready && k.member > 0 { // long after the main program
						p.until = time.Now().Add(time.Duration(k.member) * time.Minute)
					}
				}
			}
			s.job("7", 3, func(q *task.Request) { q.Groups[1].Least, q.Done = 2, done })
			a, got := s.over("7", 10*time.Minute), ""
			for _, m := range a.Members {
				got += " " + string(m.State)
			}
			if a.End != task.EndEntryDone || strings.TrimSpace(got) != want {
				t.Errorf("done by %q: %s, %s", done, a.End, got)
			}
		})
	}
}

// TestChaosOfJobs is TestChaos for jobs on 100 hosts, of which each may be several members: there is one history, no two epochs run at a time, and
// every job is over in the end, with one end.
func TestChaosOfJobs(t *testing.T) {
	ends, epochs, most := map[task.End]int{}, uint32(0), 0
	for seed := range uint64(2) {
		inSwarm(t, 100, func(s *swarm) {
			rng := rand.New(rand.NewPCG(seed, 19))
			trouble := true
			for _, h := range s.hosts {
				h.fate = func(h *host, k key, p *program) { doomJob(h, k, p, trouble) }
				h.cpus = 1 + rng.Uint32N(16)
				h.listens(task.DefaultTaskrunner, 1)
			}
			var ids []string
			for i := range 40 {
				id := fmt.Sprint(i + 1)
				first := rng.IntN(90)
				s.job(id, 1+uint32(rng.IntN(12)), func(q *task.Request) {
					q.Hosts, q.Retries, q.InOrder = q.Hosts[first:first+2+rng.IntN(8)], uint32(rng.IntN(4)), rng.IntN(2) == 0
					if rng.IntN(2) == 0 { // it is on hosts beside others
						q.Groups[0].Needs, q.Groups[1].Needs = ledger.Needs{MilliCPU: 500}, ledger.Needs{MilliCPU: 1000 + rng.Uint32N(2000)}
						q.Groups[0].FirstPorts, q.Groups[1].Ports = []uint32{29400}, [][]uint32{nil, {9000}}[rng.IntN(5)/4]
					}
					q.TimeoutMS, q.Groups[1].Least = 200_000+int64(rng.IntN(400_000)), uint32(rng.IntN(2))
					q.JobTerms = task.JobTerms{Done: []string{task.DoneAll, task.DoneMain, task.DoneAny}[rng.IntN(3)], ReadyMS: 120_000, LivesMS: int64(rng.IntN(3)/2) * 60_000, Together: rng.IntN(4) == 0, GraceMS: int64(rng.IntN(3)) * 30_000, Stops: rng.IntN(2) == 0}
				})
				ids = append(ids, id)
				for range 6 {
					s.misfortune(rng)
				}
				s.run(time.Duration(rng.IntN(30)) * time.Second)
				if rng.IntN(10) == 0 {
					s.do(state.CancelAssignment{Assignment: id, Reason: "an operator", AtMS: time.Now().UnixMilli()})
				}
			}
			trouble = false
			for _, h := range s.hosts {
				h.up, h.linked = true, true
			}
			s.lead(0)
			for _, id := range ids {
				a := s.over(id, 20*time.Minute)
				ends[a.End]++
				epochs = max(epochs, a.Epoch)
				on := map[string]int{}
				for _, m := range a.Members {
					on[m.Node]++
					most = max(most, on[m.Node])
				}
				if a.End == "" || a.End.Verdict() != a.Verdict || a.Verdict != task.Succeeded && strings.TrimSpace(a.Reason) == "" {
					t.Errorf("seed %d: job %s %s: %s, %s", seed, id, a.End, a.Verdict, a.Reason)
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
	t.Logf("ends %v, at most %d epochs, and %d members on a host", ends, epochs, most)
	if ends[task.EndEntryDone] < 5 || ends[task.EndHostLost]+ends[task.EndMemberFailed] < 5 || len(ends) < 6 || epochs < 2 || most < 3 {
		t.Errorf("ends %v, at most %d epochs, and %d members on a host: the faults are too few or too many", ends, epochs, most)
	}
}

// doomJob is what comes of members of jobs at random. Workers run until they are ended, most of them.
func doomJob(h *host, k key, p *program, trouble bool) {
	if k.member > 0 && h.rng.IntN(50) > 0 {
		hang(h, k, p)
	}
	if p.state == task.Ready && h.rng.IntN(100) == 0 && stopsJob(h, k) {
		p.asks = task.AskStop
	}
	doom(h, p, trouble)
}

// TestTheGraceOfALostHost: what it runs of a job has its lease and its grace to end, and the next epoch begins after both.
func TestTheGraceOfALostHost(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate = hang
		}
		s.job("7", 1, func(q *task.Request) { q.Retries, q.GraceMS = 1, 120_000 })
		s.run(20 * time.Second)
		s.hosts[1].linked = false
		s.run(170 * time.Second)
		if a := s.assignment("7"); a.Phase != task.Waiting || len(s.hosts[1].has) != 1 {
			t.Errorf("%s, and the lost host has %d members", a.Phase, len(s.hosts[1].has))
		}
		s.run(30 * time.Second)
		if a := s.assignment("7"); a.Epoch != 2 || on(a) != "0 0" {
			t.Errorf("on %s in epoch %d", on(a), a.Epoch)
		}
	})
}

// stopsJob reports whether a host may ask for the end of a member's job.
func stopsJob(h *host, k key) bool { return h.swarm.log.View().Tasks.Assignments[k.id].Stops }

// TestAJobBesideAnSL ends when the SL is gone that runs rank 0 itself, and goes on while that is there.
func TestAJobBesideAnSL(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, h := range s.hosts {
			h.fate = serve(nil)
		}
		s.job("7", 1, func(q *task.Request) { q.Beside = s.hosts[2].name }) // that a node is an SL the leader need not know
		if a := s.over("7", time.Minute); a.Verdict != task.Succeeded {
			t.Errorf("beside one that is there: %+v", a)
		}
		s.job("8", 1, func(q *task.Request) { q.Beside = "sl-1" })
		if a := s.over("8", time.Minute); a.End != task.EndHostLost || !strings.Contains(a.Reason, "SL sl-1, which runs rank 0, is gone") {
			t.Errorf("beside one that is gone: %+v", a)
		}
		for _, h := range s.hosts {
			h.fate = serve(func(_ *host, p *program) { p.code = map[bool]int32{true: 3}[p.state == task.Exited] })
		}
		s.job("9", 1, func(q *task.Request) { q.Beside = s.hosts[2].name })
		if a := s.over("9", time.Minute); a.End != task.EndMemberFailed || !strings.HasPrefix(a.Reason, "member 1 (main) on swop-000 exited with code 3") {
			t.Errorf("whose first member, of rank 1, fails: %+v", a)
		}
	})
}

// TestAnSLIsSilent: its ranks go on when it is heard again before a host's lease would be over, also after a change of leaders, and end after that.
func TestAnSLIsSilent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		silent time.Duration
		change time.Duration // when there is another leader; 0: never
		gone   bool
	}{
		{"for 6 seconds", 6 * time.Second, 0, false},
		{"for a minute", time.Minute, 0, false},
		{"for longer", 80 * time.Second, 0, true},
		{"for longer, but the leader is new", 80 * time.Second, 60 * time.Second, false},
		{"for much longer", 150 * time.Second, 60 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSwarm(t, 2, func(s *swarm) {
				sl := &host{swarm: s, name: "sl-1", rng: s.hosts[0].rng, up: true, linked: true, heard: time.Now(), has: map[key]*program{}}
				s.do(state.RegisterNode{Node: state.Node{Name: sl.name, Role: naming.RoleSL, PeerID: "key-sl-1"}, TokenHash: strings.Repeat("2", 64), AtMS: time.Now().UnixMilli()})
				hosts := s.hosts
				s.hosts = append(s.hosts, sl)
				for _, h := range hosts {
					h.fate = hang
				}
				s.job("7", 1, func(q *task.Request) { q.Beside, q.Hosts = "sl-1", []string{hosts[0].name, hosts[1].name} })
				s.run(20 * time.Second)
				sl.linked = false
				s.run(tt.change)
				if tt.change > 0 {
					s.lead(1)
				}
				s.run(tt.silent - tt.change)
				sl.linked = true
				s.run(10 * time.Second)
				a := s.assignment("7")
				if gone := a.Verdict != ""; gone != tt.gone || gone != (a.Reason == "SL sl-1, which runs rank 0, is gone") || !gone && a.Phase != task.Running {
					t.Errorf("phase %s, %s: %q", a.Phase, a.End, a.Reason)
				}
				s.do(state.CancelAssignment{Assignment: "7", AtMS: time.Now().UnixMilli()})
				s.over("7", 3*time.Minute)
			})
		})
	}
}

// TestAnSLLeaves: its ranks end at once when it says that it goes, or is banned.
func TestAnSLLeaves(t *testing.T) {
	for name, goes := range map[string]state.Command{
		"it leaves":    state.LeaveNode{Node: "sl-1", TokenHash: strings.Repeat("2", 64), Reason: "stopped", AtMS: 1},
		"it is banned": state.BanNode{PeerID: "key-sl-1", Reason: "no", By: operator, AtMS: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inSwarm(t, 1, func(s *swarm) {
				s.do(state.RegisterNode{Node: state.Node{Name: "sl-1", Role: naming.RoleSL, PeerID: "key-sl-1"}, TokenHash: strings.Repeat("2", 64), AtMS: time.Now().UnixMilli()})
				s.hosts[0].fate = hang
				s.job("7", 0, func(q *task.Request) { q.Beside = "sl-1"; q.Groups = q.Groups[:1] })
				s.run(3 * time.Second)
				s.do(goes)
				s.run(2 * time.Second)
				if a := s.assignment("7"); a.End != task.EndHostLost {
					t.Errorf("phase %s, %s: %q", a.Phase, a.End, a.Reason)
				}
				s.over("7", time.Minute)
			})
		})
	}
}

// TestAJobIsDoneThoughItsSLIsGone: as many have succeeded as must when that is seen, and one goes on that would do so too.
func TestAJobIsDoneThoughItsSLIsGone(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		ends := false
		for _, h := range s.hosts {
			h.fate = func(h *host, k key, p *program) {
				if k.member == 0 && !ends || k.member == 1 {
					hang(h, k, p)
				}
			}
		}
		s.do(state.RegisterNode{Node: state.Node{Name: "sl-1", Role: naming.RoleSL, PeerID: "key-sl-1"}, TokenHash: strings.Repeat("2", 64), AtMS: time.Now().UnixMilli()})
		s.job("7", 1, func(q *task.Request) {
			q.Beside, q.Groups = "sl-1", []task.Group{{Name: "rank", Peers: 2, Least: 1}}
		})
		live := func(seconds int) {
			for range seconds {
				s.alive.Touch("sl-1", time.Now())
				s.run(time.Second)
			}
		}
		live(30)
		if a := s.assignment("7"); a.Phase != task.Running || a.Met() {
			t.Fatalf("not under way: %+v", a)
		}
		ends = true
		live(10)
		if a := s.assignment("7"); !a.Met() || a.Verdict != "" {
			t.Fatalf("one has not succeeded while the other is awaited: %+v", a)
		}
		if a := s.over("7", 2*time.Minute); a.Verdict != task.Succeeded || a.End != task.EndEntryDone {
			t.Errorf("%s by %s: %s", a.Verdict, a.End, a.Reason)
		}
	})
}
