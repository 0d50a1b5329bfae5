package assign_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/assign"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

// happens is what a member comes to, a while after all of a job are ready.
type happens struct {
	member int
	after  time.Duration
	state  task.State // empty: it stays
	code   int32
	asks   string
}

// asOf has a job for Oracle's programs, whose workers succeed too, go on as these say, and returns it when it is over.
func (s *swarm) asOf(all []happens, entry state.AssignTask, change func(q *task.Request)) *task.Assignment {
	s.t.Helper()
	s.do(state.CreateTask{Task: "oci", TaskType: task.RunJob, Prereq: task.Root, Jobs: true})
	s.do(state.EditTask{Task: "oci", Line: 1, Text: []byte("name: oci")})
	s.do(state.EditTask{Task: "oci", Line: 2, Text: []byte("compat: oci")})
	s.do(state.FinaliseTask{Task: "oci"})
	var ready time.Time
	for _, h := range s.hosts {
		h.fate = func(_ *host, k key, p *program) {
			if p.state == task.Exited {
				p.state = task.Ready
			}
			if a := s.assignment(k.id); ready.IsZero() && a.ReadySinceMS > 0 {
				ready = time.Now()
			}
			for _, x := range all {
				if p.until = time.Now(); x.member != k.member || ready.IsZero() || time.Since(ready) < x.after || p.state != task.Ready {
					continue
				}
				if p.asks = x.asks; x.state != "" {
					p.state, p.code = x.state, x.code
				}
			}
		}
	}
	q := task.Request{ID: "7", Task: "oci", By: operator, Groups: []task.Group{{Name: "main", Peers: 1, Least: 1}, {Name: "worker", Peers: 2, Least: 2}}, JobTerms: task.JobTerms{Stops: true, GraceMS: 30_000}}
	for _, h := range s.hosts {
		q.Hosts = append(q.Hosts, h.name)
	}
	if change != nil {
		change(&q)
	}
	entry.Assignment, entry.AtMS, entry.Whole, entry.Detailed, entry.Strict = q, time.Now().UnixMilli(), true, true, true
	s.do(entry)
	return s.over("7", 5*time.Minute)
}

// TestExitsCountAfterAStop: a job with compat: oci that is asked to end is judged by how its members end within its grace, in whichever order all comes.
func TestExitsCountAfterAStop(t *testing.T) {
	const stop, fail = task.AskStop, task.AskFail
	at := func(member int, seconds int, s task.State, code int32, asks string) happens {
		return happens{member, time.Duration(seconds) * time.Second, s, code, asks}
	}
	exits := state.AssignTask{ExitsCount: true}
	serves := func(q *task.Request) { q.Groups[1].Least = 0 }
	for name, tt := range map[string]struct {
		all    []happens
		entry  state.AssignTask
		change func(q *task.Request)
		end    task.End
		why    string
		grace  bool // it has had that
	}{
		"all succeed": {
			all: []happens{at(0, 1, "", 0, stop), at(0, 5, task.Exited, 0, ""), at(1, 9, task.Exited, 0, ""), at(2, 15, task.Exited, 0, "")}, entry: exits, end: task.EndEntryDone,
		},
		"its program fails": {
			all: []happens{at(0, 1, "", 0, stop), at(0, 15, task.Exited, 1, "")}, entry: exits, end: task.EndMemberFailed, why: "member 0 (main) on swop-000 exited with code 1, after the job was asked to end",
		},
		"its program fails, and others have ended": {
			all: []happens{at(1, 1, "", 0, stop), at(1, 3, task.Exited, 0, stop), at(2, 4, task.Exited, 0, ""), at(0, 15, task.Exited, 1, "")}, entry: exits, end: task.EndMemberFailed,
			why: "member 0 (main) on swop-000 exited with code 1, after the job was asked to end",
		},
		"its program fails, and nobody saw the file before": {
			all: []happens{at(0, 5, task.Exited, 1, stop)}, entry: exits, end: task.EndMemberFailed, why: "member 0 (main) on swop-000 exited with code 1, after the job was asked to end",
		},
		"its program fails first": {
			all: []happens{at(0, 1, task.Exited, 1, ""), at(1, 5, "", 0, stop)}, entry: exits, end: task.EndMemberFailed, why: "member 0 (main) on swop-000 exited with code 1",
		},
		"a worker fails": {
			all: []happens{at(0, 1, "", 0, stop), at(0, 5, task.Exited, 0, ""), at(2, 15, task.Exited, 3, "")}, entry: exits, end: task.EndMemberFailed,
			why: "member 2 (worker) on swop-000 exited with code 3, after the job was asked to end",
		},
		"a worker that serves fails": {
			all: []happens{at(0, 1, "", 0, stop), at(2, 15, task.Exited, 3, "")}, entry: exits, change: serves, end: task.EndMemberFailed,
			why: "member 2 (worker) on swop-000 exited with code 3, after the job was asked to end",
		},
		"workers that served end first": {
			all: []happens{at(1, 1, task.Exited, 0, stop), at(2, 2, task.Exited, 0, stop), at(0, 15, task.Exited, 0, "")}, entry: exits, change: serves, end: task.EndEntryDone,
		},
		"its program fails after workers that served": {
			all:   []happens{at(0, 1, "", 0, stop), at(1, 5, task.Exited, 0, ""), at(2, 6, task.Exited, 0, ""), at(0, 15, task.Exited, 1, "")},
			entry: exits, change: serves, end: task.EndMemberFailed, why: "member 0 (main) on swop-000 exited with code 1, after the job was asked to end",
		},
		"nobody ends": {
			all: []happens{at(0, 1, "", 0, stop)}, entry: exits, end: task.EndStopFile, grace: true,
		},
		"one that has asked ends, and others go on": {
			all: []happens{at(1, 1, "", 0, stop), at(1, 5, task.Exited, 0, stop)}, entry: exits, end: task.EndStopFile, grace: true,
		},
		"its program fails when the grace is over": {
			all: []happens{at(0, 1, "", 0, stop), at(0, 50, task.Exited, 1, "")}, entry: exits, end: task.EndStopFile, grace: true,
		},
		"one that lives on ends": {
			all:   []happens{at(0, 1, "", 0, stop), at(0, 5, task.Exited, 0, stop), at(1, 6, task.Exited, 0, stop), at(2, 7, task.Exited, 0, stop)},
			entry: exits, change: func(q *task.Request) { q.LivesMS = 240_000 }, end: task.EndStopFile,
		},
		"a host reads that it has failed": {
			all: []happens{at(1, 5, "", 0, fail)}, entry: exits, end: task.EndMemberFailed, why: "there is a file stop_fail in the folder of its run",
		},
		"a host reads that it has failed, after the stop": {
			all: []happens{at(1, 5, "", 0, stop), at(1, 15, "", 0, fail)}, entry: exits, end: task.EndMemberFailed, why: "there is a file stop_fail in the folder of its run",
		},
		"a host reads at the end of its program that it has failed": {
			all: []happens{at(0, 5, task.Exited, -1, fail)}, entry: exits, change: func(q *task.Request) { q.Retries = 1 }, end: task.EndMemberFailed, why: "there is a file stop_fail in the folder of its run",
		},
		"a host reads at the end of one that need not succeed that the job has failed": {
			all: []happens{at(2, 5, task.Exited, -1, fail)}, entry: exits, change: func(q *task.Request) { q.Groups[1].Least = 1 }, end: task.EndMemberFailed,
			why: "there is a file stop_fail in the folder of its run",
		},
		"it is not placed anew": {
			all: []happens{at(0, 1, "", 0, stop), at(0, 15, task.Exited, 1, "")}, entry: exits, change: func(q *task.Request) { q.Retries = 1 }, end: task.EndMemberFailed,
			why: "member 0 (main) on swop-000 exited with code 1, after the job was asked to end",
		},
		"its time is over": {
			all: []happens{at(0, 1, "", 0, stop)}, entry: exits, change: func(q *task.Request) { q.TimeoutMS = 60_000; q.GraceMS = 200_000 }, end: task.EndMaxRuntime, why: "timed out after 1m0s: swop-000 is ready",
		},
		"an entry of before": {
			all: []happens{at(0, 1, "", 0, stop), at(0, 15, task.Exited, 1, stop)}, end: task.EndStopFile,
		},
		"an entry of before, and it ends at once": {
			all: []happens{at(0, 1, task.Exited, 1, stop)}, end: task.EndMemberFailed, why: "member 0 (main) on swop-000 exited with code 1",
		},
		"another job": {
			all: []happens{at(0, 1, "", 0, stop), at(0, 15, task.Exited, 1, "")}, entry: exits, change: func(q *task.Request) { q.Task = "job" }, end: task.EndStopFile,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSwarm(t, 2, func(s *swarm) {
				a := s.asOf(tt.all, tt.entry, tt.change)
				if a.End != tt.end || a.Reason != tt.why || a.Epoch != 1 {
					t.Errorf("in epoch %d the end %s: %q, want %s: %q", a.Epoch, a.End, a.Reason, tt.end, tt.why)
				}
				if took := a.EndedMS - a.StoppedMS; a.StoppedMS > 0 && tt.end != task.EndMaxRuntime && (took >= a.GraceMS) != tt.grace {
					t.Errorf("it has its verdict %d ms after it was asked to end, with a grace of %d", took, a.GraceMS)
				}
			})
		})
	}
}

// TestAHostIsLostAfterAStop: the job has failed by that, and not by a worker that has ended as it was asked to.
func TestAHostIsLostAfterAStop(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		a := s.asOf([]happens{{member: 0, after: time.Second, asks: task.AskStop}, {member: 1, after: 5 * time.Second, state: task.Exited}}, state.AssignTask{ExitsCount: true}, func(q *task.Request) {
			q.Groups[1].Least = 0
			fate := s.hosts[0].fate
			s.hosts[0].fate = func(h *host, k key, p *program) {
				fate(h, k, p)
				h.up = h.up && s.assignment(k.id).Members[1].State != task.Exited
			}
		})
		if want := "on swop-000 was lost: it is not heard any more, after the job was asked to end"; a.End != task.EndHostLost || !strings.HasSuffix(a.Reason, want) {
			t.Errorf("the end %s: %q, want %s: %q", a.End, a.Reason, task.EndHostLost, want)
		}
	})
}

// TestANewLeaderGivesTheGrace: by its own clock, whatever another one has noted of when the job was asked to end.
func TestANewLeaderGivesTheGrace(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		var seen []assign.Inputs
		s.asOf([]happens{{member: 0, after: time.Second, asks: task.AskStop}}, state.AssignTask{ExitsCount: true}, func(*task.Request) {
			fate := s.hosts[0].fate
			s.hosts[0].fate = func(h *host, k key, p *program) {
				fate(h, k, p)
				if a := s.assignment(k.id); a.StoppedMS > 0 && a.Open() && len(seen) == 0 {
					seen = append(seen, assign.Inputs{Now: time.UnixMilli(a.StoppedMS), View: s.log.View()})
				}
			}
		})
		if len(seen) == 0 {
			t.Fatal("it was never asked to end")
		}
		for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
			in := seen[0]
			in.Now = in.Now.Add(ahead)
			in.Since = in.Now.Add(-29 * time.Second)
			if moves := assign.Decide(in); len(moves) != 0 {
				t.Errorf("a new leader whose clock is %v ahead moves %+v", ahead, moves)
			}
			in.Since = in.Now.Add(-30 * time.Second)
			if moves := assign.Decide(in); len(moves) != 1 || moves[0].End != task.EndStopFile {
				t.Errorf("a new leader whose clock is %v ahead moves %+v when the grace is over", ahead, moves)
			}
		}
	})
}

// TestStopFailOfAnEntryOfBefore: exits of its members don't count, so the word counts for nothing, and the job goes on beside it.
func TestStopFailOfAnEntryOfBefore(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		var all []happens
		for i := range 3 {
			all = append(all, happens{i, 5 * time.Second, task.Exited, 0, task.AskFail})
		}
		a := s.asOf(all, state.AssignTask{}, func(*task.Request) {
			for _, h := range s.hosts {
				fate := h.fate
				h.fate = func(h *host, k key, p *program) {
					p.asks = task.AskFail
					fate(h, k, p)
				}
			}
		})
		if a.End != task.EndEntryDone || a.Reason != "" {
			t.Errorf("the end %s: %q", a.End, a.Reason)
		}
	})
}
