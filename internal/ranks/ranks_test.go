package ranks_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/ranks"
	"github.com/swarmd/swarmd/internal/rendezvous"
)

// swarm is one that hosts whatever it is asked to.
type swarm struct {
	nodes []*swarmv1.Node
	// fate is what becomes of the n-th run, from 0 on, when it has run for a second; empty: it runs on.
	fate func(n int) (end, reason string)
	// ends is how the first run has ended before rank 0 does, which looks show from then on alone; nil: it has not.
	ends *swarmv1.Assignment
	then time.Time
	// away is until when no SN answers, from when rank 0 has ended on.
	away time.Time
	// loses is a call whose first answer is lost, and whose effect is not.
	loses string

	mu     sync.Mutex
	bodies map[string]string // of tasks
	runs   []*swarmv1.Assignment
	looks  map[string]int
	open   int // most runs that were not over at a time
}

func newSwarm() *swarm {
	host := func(name, address string) *swarmv1.Node {
		return &swarmv1.Node{Name: name, Role: "swop", Live: true, Host: address, Offer: &swarmv1.Offer{Jobs: "process"}}
	}
	return &swarm{
		nodes:  []*swarmv1.Node{host("h-2", "10.0.0.2"), host("h-1", "10.0.0.1"), {Name: "sl-1", Role: "sl", Live: true}, {Name: "dead", Role: "swop"}},
		bodies: map[string]string{}, looks: map[string]int{}, fate: func(int) (string, string) { return "", "" },
	}
}

func (s *swarm) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{Nodes: s.nodes}, s.lost("list nodes")
}

// lost is the error of a call whose answer is lost.
func (s *swarm) lost(call string) error {
	if s.loses != call {
		return nil
	}
	s.loses = ""
	return &client.Error{Reason: client.ReasonNoLeader, Code: connect.CodeUnavailable, Message: "no leader"}
}

func (s *swarm) CreateTask(_ context.Context, req *swarmv1.CreateTaskRequest) (*swarmv1.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies[req.GetName()] = ""
	return &swarmv1.Task{Name: req.GetName()}, s.lost("create")
}

func (s *swarm) EditTask(_ context.Context, name string, line uint32, text string) (*swarmv1.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := uint32(strings.Count(s.bodies[name], "\n")) + 1; line != at {
		return nil, fmt.Errorf("line %d is written, and %d is next", line, at)
	}
	s.bodies[name] += text
	return &swarmv1.Task{Name: name}, s.lost("edit")
}

func (s *swarm) FinaliseTask(_ context.Context, name, _ string) (*swarmv1.Task, error) {
	return &swarmv1.Task{Name: name}, s.lost("finalise")
}

func (s *swarm) DeleteTask(_ context.Context, name string, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bodies, name)
	return nil
}

func (s *swarm) ListTasks(context.Context) (all []*swarmv1.Task, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.answers(); err != nil {
		return nil, err
	}
	for name := range maps.Keys(s.bodies) {
		all = append(all, &swarmv1.Task{Name: name, Type: "RUN_JOB", By: "spiffe://a.example/swarm/sl/sl-1"})
	}
	return all, nil
}

func (s *swarm) AssignTask(_ context.Context, req *swarmv1.AssignTaskRequest) (*swarmv1.Assignment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &swarmv1.Assignment{Id: fmt.Sprint(len(s.runs) + 1), Task: req.GetTask(), Beside: req.GetBeside(), Hosts: req.GetHosts(), Groups: req.GetGroups(), Phase: "waiting"}
	s.runs = append(s.runs, a)
	n := 0
	for _, x := range s.runs {
		if x.GetPhase() != "over" {
			n++
		}
	}
	s.open = max(s.open, n)
	return a, s.lost("assign")
}

func (s *swarm) CancelAssignment(_ context.Context, id, reason string) (*swarmv1.Assignment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.answers(); err != nil {
		return nil, err
	}
	a := s.find(id)
	s.end(a)
	if a.GetVerdict() == "" {
		a.Verdict, a.End, a.Reason, a.Phase = "cancelled", "cancelled", reason, "ending"
	}
	return a, nil
}

// GetAssignment has the assignment go on: it runs at the second look, and has its fate at the third.
func (s *swarm) GetAssignment(_ context.Context, id string) (*swarmv1.Assignment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.answers(); err != nil {
		return nil, err
	}
	a := s.find(id)
	s.looks[id]++
	if time.Now().After(s.then) {
		s.end(a)
	}
	var n int
	_, _ = fmt.Sscan(id, &n)
	switch end, reason := s.fate(n - 1); {
	case a.GetPhase() == "ending":
		a.Phase = "over"
	case s.looks[id] < 2 || a.GetVerdict() != "":
	case s.looks[id] == 2 && end != "refused":
		a.Phase = "running"
		a.Members = []*swarmv1.AssignmentMember{{Node: "h-2", Address: "10.0.0.2"}, {Index: 1, Node: "h-1", Address: "10.0.0.1"}}
	case end != "":
		a.Verdict, a.End, a.Reason, a.Phase = "failed", end, reason, "ending"
		if end == "entry_done" {
			a.Verdict = "succeeded"
		}
		a.Members = []*swarmv1.AssignmentMember{{Index: 1, Node: "h-2", State: "exited", Code: 3}}
		if end == "refused" {
			a.Members = []*swarmv1.AssignmentMember{{Node: a.GetHosts()[0], State: "refused"}}
		}
	}
	return a, nil
}

// answers is an error while no SN does.
func (s *swarm) answers() error {
	if time.Now().Before(s.away) {
		return &client.Error{Reason: client.ReasonUnreachable, Code: connect.CodeUnavailable, Message: "cannot reach SN"}
	}
	return nil
}

// end has the first run end as it is to.
func (s *swarm) end(a *swarmv1.Assignment) {
	if e := s.ends; e != nil && a.GetId() == "1" && a.GetVerdict() == "" {
		a.Verdict, a.End, a.Reason, a.Phase, a.Members = e.GetVerdict(), e.GetEnd(), e.GetReason(), "ending", e.GetMembers()
	}
}

func (s *swarm) find(id string) *swarmv1.Assignment {
	return s.runs[slices.IndexFunc(s.runs, func(a *swarmv1.Assignment) bool { return a.GetId() == id })]
}

func (s *swarm) ListAssignments(context.Context) (*swarmv1.ListAssignmentsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &swarmv1.ListAssignmentsResponse{Assignments: s.runs}, s.lost("list")
}

// program is rank 0's, which ends by itself after a while, or when it is stopped.
type program struct {
	done chan struct{}
	exit launch.Exit
}

func (p *program) ID() string            { return "1" }
func (p *program) Done() <-chan struct{} { return p.done }
func (p *program) Wait() launch.Exit     { <-p.done; return p.exit }
func (p *program) Stop(time.Duration)    {}

// sl starts the programs of rank 0; the n-th ends as of says, or after an hour with 0.
type sl struct {
	after  func(n int) (time.Duration, int)
	heeds  bool // a stopped program exits with 0, as one with a handler of its own
	lost   bool // nobody sees a program end
	env    [][]string
	meets  *rendezvous.Meeting // of the last start
	failed []string
}

func (s *sl) host() ranks.Host {
	return ranks.Host{
		Start: func(ctx context.Context, env []string, meets *rendezvous.Meeting) (ranks.Running, error) {
			d, code := time.Hour, 0
			if s.after != nil {
				d, code = s.after(len(s.env))
			}
			s.env, s.meets = append(s.env, env), meets
			p := &program{done: make(chan struct{})}
			go func() {
				defer close(p.done)
				p.exit.Lost = s.lost
				select {
				case <-ctx.Done():
					if !s.heeds {
						p.exit.ExitCode = 143
					}
				case <-time.After(d):
					p.exit.ExitCode = code
				}
			}()
			return p, nil
		},
		Failed: func(_ context.Context, exit launch.Exit) { s.failed = append(s.failed, exit.String()) },
	}
}

func newRanks(restarts int) *ranks.Ranks {
	return &ranks.Ranks{Restarts: restarts, Log: slog.New(slog.DiscardHandler), Program: ranks.Program{
		SL: "Hospital.A", Address: "10.0.0.9", Ranks: 3, File: "train.py", Args: []string{"--cost", "$5"}, Env: []jobfile.Var{{Name: "A", Value: "${B}"}},
		Source: []jobfile.File{{Path: "train.py", Data: []byte("pass\n")}},
	}}
}

// TestRanks: what all ranks come to, by what becomes of the others and of rank 0.
func TestRanks(t *testing.T) {
	for _, tt := range []struct {
		name     string
		restarts int
		fate     func(n int) (end, reason string)
		after    func(n int) (time.Duration, int)
		want     string
		runs     int
	}{
		{name: "all succeed", fate: func(int) (string, string) { return "entry_done", "" }, want: "exit code 0", runs: 1},
		{name: "rank 0 is done first", after: func(int) (time.Duration, int) { return time.Minute, 0 }, want: "exit code 0", runs: 1},
		{name: "a rank fails", fate: func(int) (string, string) { return "member_failed", "x" }, want: "exit code 3: rank 2 on host h-2 ended with exit code 3", runs: 1},
		{name: "a rank fails each time", restarts: 2, fate: func(int) (string, string) { return "member_failed", "x" }, want: "exit code 3: rank 2 on host h-2 ended with exit code 3, after 2 restarts of all ranks", runs: 3},
		{name: "a rank fails once", restarts: 2, fate: func(n int) (string, string) { return []string{"member_failed", "entry_done"}[min(n, 1)], "" }, want: "exit code 0", runs: 2},
		{name: "a host is lost once", restarts: 1, fate: func(n int) (string, string) { return []string{"host_lost", "entry_done"}[min(n, 1)], "" }, want: "exit code 0", runs: 2},
		{name: "rank 0 fails once", restarts: 1, after: func(n int) (time.Duration, int) { return 10 * time.Second, 1 - n }, want: "exit code 0", runs: 2},
		{name: "rank 0 fails", after: func(int) (time.Duration, int) { return 10 * time.Second, 7 }, want: "exit code 7", runs: 1},
		{name: "an operator cancels", restarts: 3, fate: func(int) (string, string) { return "cancelled", "enough" }, want: "exit code 1: the other ranks: failed: enough", runs: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			synctest.Test(t, func(t *testing.T) {
				s, node := newSwarm(), &sl{after: tt.after}
				if tt.fate != nil {
					s.fate = tt.fate
				}
				exit := newRanks(tt.restarts).Start(t.Context(), s, node.host()).Wait()
				synctest.Wait()
				if got := exit.String(); got != tt.want || len(s.runs) != tt.runs || s.open > 1 || len(node.failed) != tt.runs-1 {
					t.Errorf("got %q after %d runs, %d at a time, of which %q were told; want %q after %d", got, len(s.runs), s.open, node.failed, tt.want, tt.runs)
				}
				for _, a := range s.runs {
					if a.GetVerdict() == "" {
						t.Errorf("run %s goes on", a.GetId())
					}
				}
				for n, env := range node.env {
					if !slices.Contains(env, "RANK=0") || !slices.Contains(env, "WORLD_SIZE=3") || !slices.Contains(env, fmt.Sprintf("SWARM_EPOCH=%d", n)) || !slices.Contains(env, "MASTER_ADDR=10.0.0.9") {
						t.Errorf("start %d has %q", n, env)
					}
				}
			})
		})
	}
}

// TestRanksOfHorovodMeet: rank 0 begins where it serves the others, at the addresses by which their hosts are known. Those of PyTorch meet by themselves.
func TestRanksOfHorovodMeet(t *testing.T) {
	for framework, want := range map[string]string{
		"": "", "pytorch": "", "horovod": "-own=10.0.0.9 -within=0s -ranks=10.0.0.9,10.0.0.2,10.0.0.1 --",
	} {
		t.Setenv("TMPDIR", t.TempDir())
		synctest.Test(t, func(t *testing.T) {
			s, node := newSwarm(), &sl{after: func(int) (time.Duration, int) { return time.Minute, 0 }}
			r := newRanks(0)
			r.Framework = framework
			if got := r.Start(t.Context(), s, node.host()).Wait().String(); got != "exit code 0" {
				t.Errorf("%q: %s", framework, got)
			}
			synctest.Wait()
			got := ""
			if node.meets != nil {
				got = strings.Join(node.meets.Wrap("swarmd"), " ")
			}
			if !strings.HasSuffix(got, want) || (got == "") != (want == "") {
				t.Errorf("%q: %s, want %s", framework, got, want)
			}
			if rank := "HOROVOD_RANK=0"; slices.Contains(node.env[0], rank) != (framework == "horovod") {
				t.Errorf("%q: started with %q", framework, node.env[0])
			}
		})
	}
}

// TestTheCauseIsLookedFor: rank 0 fails of what the swarm says only later.
func TestTheCauseIsLookedFor(t *testing.T) {
	member := func(index uint32, state string, code int32, at int64) *swarmv1.AssignmentMember {
		return &swarmv1.AssignmentMember{Index: index, Node: fmt.Sprintf("h-%d", index), State: state, Code: code, ChangedUnixMs: at}
	}
	failed := func(members ...*swarmv1.AssignmentMember) *swarmv1.Assignment {
		return &swarmv1.Assignment{Verdict: "failed", End: "member_failed", Reason: "words", Members: members}
	}
	for _, tt := range []struct {
		name  string
		after time.Duration // rank 0 has failed the swarm says so
		says  *swarmv1.Assignment
		want  string
		runs  int
	}{
		{"who failed first", 0, failed(member(0, "exited", 1, 30), member(1, "exited", 137, 20), member(2, "stopped", 0, 10)), "exit code 137: rank 2 on host h-1 ended with exit code 137, and rank 0 with exit code 7", 2},
		{"a host was lost first", 0, failed(member(0, "exited", 1, 30), member(1, "lost", 0, 20)), "exit code 1: the other ranks: failed: words, and rank 0 with exit code 7", 2},
		{"a busy host says it late", 12 * time.Second, failed(member(0, "exited", 137, 30)), "exit code 137: rank 1 on host h-0 ended with exit code 137, and rank 0 with exit code 7", 2},
		{"an operator's end is known late", 20 * time.Second, &swarmv1.Assignment{Verdict: "cancelled", End: "cancelled", Reason: "enough"}, "exit code 1: the other ranks: cancelled: enough", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm()
				s.ends, s.then = tt.says, time.Now().Add(11*time.Second+tt.after)
				node := &sl{after: func(n int) (time.Duration, int) { return 8 * time.Second, 7 * (1 - n) }} // after two looks
				exit := newRanks(1).Start(t.Context(), s, node.host()).Wait()
				got := exit.String()
				if len(node.failed) > 0 {
					got = node.failed[0]
				}
				if got != tt.want || len(s.runs) != tt.runs {
					t.Errorf("got %q, %d runs; want %q, %d", got, len(s.runs), tt.want, tt.runs)
				}
			})
		})
	}
}

// TestSNsAreAwayAtARestart: it waits for them, and no rank of the start before is left when all are started again; nothing waits once the node stops.
func TestSNsAreAwayAtARestart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSwarm()
			node := &sl{after: func(n int) (time.Duration, int) {
				if n == 0 {
					s.mu.Lock()
					s.away = time.Now().Add(time.Minute)
					s.mu.Unlock()
				}
				return 8 * time.Second, 7 * (1 - n)
			}}
			running := newRanks(1).Start(t.Context(), s, node.host())
			runs, want := 2, "exit code 0"
			if stops {
				time.Sleep(40 * time.Second)
				running.Stop(0)
				runs, want = 1, "exit code 7"
			}
			if got := running.Wait().String(); got != want || len(s.runs) != runs || s.open > 1 {
				t.Errorf("got %q after %d runs, %d at a time; want %q after %d", got, len(s.runs), s.open, want, runs)
			}
		})
	}
}

// TestAnswersAreLostAtAStart: whatever was done without an answer is done again, and no ranks are left of it.
func TestAnswersAreLostAtAStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, call := range []string{"list", "create", "edit", "finalise", "list nodes", "assign"} {
		synctest.Test(t, func(t *testing.T) {
			s, node := newSwarm(), &sl{after: func(int) (time.Duration, int) { return 8 * time.Second, 0 }}
			s.loses = call
			got := newRanks(0).Start(t.Context(), s, node.host()).Wait().String()
			if live := slices.ContainsFunc(s.runs, func(a *swarmv1.Assignment) bool { return a.GetVerdict() == "" }); got != "exit code 0" || len(node.env) != 1 || s.open != 1 || live || s.loses != "" {
				t.Errorf("%s: %q after %d programs, %d runs at a time, %v", call, got, len(node.env), s.open, s.runs)
			}
		})
	}
}

// TestRankZeroHeeds: a program that exits with 0 when it is ended was not done.
func TestRankZeroHeeds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		s, node := newSwarm(), &sl{heeds: true}
		s.fate = func(n int) (string, string) { return []string{"member_failed", "entry_done"}[n], "x" }
		node.after = func(int) (time.Duration, int) { return time.Minute, 0 }
		exit := newRanks(1).Start(t.Context(), s, node.host()).Wait()
		if got := exit.String(); got != "exit code 0" || len(s.runs) != 2 || len(node.failed) != 1 {
			t.Errorf("got %q after %d runs, of which %q were told; want a second one", got, len(s.runs), node.failed)
		}
	})
}

// TestRankZeroIsLost: no other one is started beside a rank 0 that may still run, whatever has become of the other ranks.
func TestRankZeroIsLost(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, end := range []string{"", "member_failed", "host_lost", "cancelled", "refused"} {
		synctest.Test(t, func(t *testing.T) {
			s, node := newSwarm(), &sl{lost: true, after: func(int) (time.Duration, int) { return time.Minute, -1 }}
			if end != "" {
				s.ends, s.then = &swarmv1.Assignment{Verdict: "failed", End: end, Members: []*swarmv1.AssignmentMember{{Node: "h-1", State: "refused"}}}, time.Now().Add(20*time.Second)
			}
			exit := newRanks(3).Start(t.Context(), s, node.host()).Wait()
			if !exit.Lost || len(node.env) != 1 || len(s.runs) != 1 || s.runs[0].GetVerdict() == "" {
				t.Errorf("%q: ended with %v after %d programs, runs %v", end, exit, len(node.env), s.runs)
			}
		})
	}
}

// TestHostsRefuse: the others are asked, which is no restart, until none is left.
func TestHostsRefuse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		named  []string
		refuse int // hosts that do
		want   string
		asked  []string
	}{
		{"one", nil, 1, "exit code 0", []string{"h-1 h-2", "h-2"}},
		{"one that is named", []string{"h-1", "h-2"}, 1, "exit code 0", []string{"h-1 h-2", "h-2"}},
		{"all", nil, 9, "exit code 1: the other ranks: failed: no sentence allows it", []string{"h-1 h-2", "h-2"}},
		{"all that are named", []string{"h-1"}, 9, "exit code 1: the other ranks: failed: no sentence allows it", []string{"h-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			synctest.Test(t, func(t *testing.T) {
				s, node, r := newSwarm(), &sl{}, newRanks(0)
				r.Hosts = tt.named
				s.fate = func(n int) (string, string) {
					if n < tt.refuse {
						return "refused", "no sentence allows it"
					}
					return "entry_done", ""
				}
				exit := r.Start(t.Context(), s, node.host()).Wait()
				var asked []string
				for _, a := range s.runs {
					asked = append(asked, strings.Join(a.GetHosts(), " "))
				}
				if got := exit.String(); got != tt.want || !slices.Equal(asked, tt.asked) || s.open > 1 || len(node.failed) > 0 {
					t.Errorf("got %q, asked %q, %d at a time, told %q; want %q of %q", got, asked, s.open, node.failed, tt.want, tt.asked)
				}
				j, err := jobfile.Decode([]byte(s.bodies[s.runs[len(s.runs)-1].GetTask()]))
				if last := tt.asked[len(tt.asked)-1]; err != nil || tt.named != nil && strings.Join(j.Groups[0].Hosts, " ") != last {
					t.Errorf("the last job: %+v, %v; want it for %s", j, err, last)
				}
			})
		})
	}
}

// TestWhatIsSigned: the hosts that take such jobs, and a body that says where rank 0 is and takes the program's words as they are.
func TestWhatIsSigned(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm()
		s.runs = []*swarmv1.Assignment{{Id: "1", Beside: "Hospital.A", Phase: "running"}, {Id: "2", Beside: "sl-2", Phase: "running"}} // of a run before, and another's
		s.looks["1"] = 9
		ctx, cancel := context.WithCancel(t.Context())
		r := newRanks(0)
		r.Image, r.Resources, r.Volumes = "i:1", []string{"cpu=2", "memory=4GB"}, []jobfile.Volume{{Name: "data", Target: "/data"}}
		for _, n := range s.nodes[:2] {
			n.Offer.Jobs = "docker"
		}
		running := r.Start(ctx, s, (&sl{}).host())
		time.Sleep(10 * time.Second)
		cancel()
		running.Wait()
		if s.runs[0].GetVerdict() != "cancelled" || s.runs[1].GetVerdict() != "" || len(s.runs) != 3 || s.runs[2].GetReason() != "its SL stops" {
			t.Errorf("runs: %v", s.runs)
		}
		a := s.runs[2]
		if a.GetBeside() != "Hospital.A" || !slices.Equal(a.GetHosts(), []string{"h-1", "h-2"}) || !strings.HasPrefix(a.GetTask(), "hospital-a-ranks.") {
			t.Errorf("assigned: %v", a)
		}
		j, err := jobfile.Decode([]byte(s.bodies[a.GetTask()]))
		if err != nil {
			t.Fatal(err)
		}
		if g := j.Groups[0]; g.Image != "i:1" || g.Resources.String() != "cpu=2,memory=4GB" || !slices.Equal(g.Volumes, r.Volumes) || a.GetGroups()[0].GetNeeds().GetMilliCpu() != 2000 {
			t.Errorf("what the other ranks have: %+v, signed %v", g, a.GetGroups())
		}
		if j.Groups[0].Replicas != 2 || j.Network != "host" || j.Beside.Address != "10.0.0.9" || j.Beside.Port < ranks.FirstPort || j.Groups[0].Env[0].Value != "$${B}" || j.Groups[0].Command[2] != "$$5" {
			t.Errorf("job: %+v", j)
		}
	})
}

// TestHostsThatCannotTakeRanks are named in a line.
func TestHostsThatCannotTakeRanks(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(s *swarm, r *ranks.Ranks)
	}{
		{"none", "no host takes ranks now: start one with swarmd run-swop --ml-runtime process", func(s *swarm, _ *ranks.Ranks) { s.nodes = nil }},
		{"none with containers", "run-swop --ml-runtime docker", func(_ *swarm, r *ranks.Ranks) { r.Image = "i:1" }},
		{"unknown", "--rank-host h-9: no SWOP of the swarm is called so", func(_ *swarm, r *ranks.Ranks) { r.Hosts = []string{"h-9"} }},
		{"loopback", "rank 0 is reached at 127.0.0.1, where host h-", func(_ *swarm, r *ranks.Ranks) { r.Address = "127.0.0.1" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			synctest.Test(t, func(t *testing.T) {
				s, r := newSwarm(), newRanks(3)
				tt.change(s, r)
				exit := r.Start(t.Context(), s, (&sl{}).host()).Wait()
				if !strings.Contains(exit.Reason, tt.want) || exit.ExitCode != 1 || len(s.runs) > 0 {
					t.Errorf("got %s, %d runs", exit, len(s.runs))
				}
			})
		})
	}
}

// TestPortsOfOneHost: SLs of one host have a port each, also before their programs listen.
func TestPortsOfOneHost(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ports := map[string]bool{}
		for range 3 {
			newRanks(0).Start(ctx, s, ranks.Host{Start: func(_ context.Context, env []string, meets *rendezvous.Meeting) (ranks.Running, error) {
				i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "MASTER_PORT=") })
				s.mu.Lock()
				ports[env[i]] = true
				s.mu.Unlock()
				return (&sl{}).host().Start(ctx, env, meets)
			}})
			time.Sleep(5 * time.Second)
			s.mu.Lock()
			for _, a := range s.runs {
				a.Beside = "another" // each start would end those of its own SL
			}
			s.mu.Unlock()
		}
		if len(ports) != 3 {
			t.Errorf("got %v", ports)
		}
		cancel()
		synctest.Wait()
	})
}

// TestSource: the program and the Python files beside it travel, and nothing else of the directory.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{"train.py": []byte("a"), "lib/more.py": []byte("b"), "model.pt": bytes.Repeat([]byte("x"), 2<<20), "run": []byte("c")} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for program, want := range map[string]string{"train.py": "lib/more.py train.py", "run": "lib/more.py run train.py"} {
		all, err := ranks.Source(dir, program)
		var names []string
		for _, f := range all {
			names = append(names, f.Path)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: got %s, %v", program, got, err)
		}
	}
	if _, err := ranks.Source(dir, "/usr/bin/true"); err == nil || !strings.Contains(err.Error(), "name a file in --model-dir") {
		t.Errorf("a program elsewhere: %v", err)
	}
	r := newRanks(0)
	if r.Ranks = 1; r.Check() == nil {
		t.Error("one rank is checked")
	}
	if r.Ranks = 1024; r.Check() != nil {
		t.Error(r.Check())
	}
	r.Env = []jobfile.Var{{Name: "LD_PRELOAD", Value: "/tmp/a.so"}}
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), "LD_PRELOAD") {
		t.Errorf("a variable that no host gives a process: %v", err)
	}
	if r.Image = "i:1"; r.Check() != nil {
		t.Errorf("in a container: %v", r.Check())
	}
}

func TestHostOfRanks(t *testing.T) {
	const refusal = "--host-ip %s leads to %s here, where ranks on other hosts do not reach rank 0: give this host's address, or have /etc/hosts lead the name to it"
	for _, tt := range []struct {
		host, framework string
		leadsTo         []string
		refused         string // the address
	}{
		{host: "10.0.0.9", leadsTo: []string{"10.0.0.9"}},
		{host: "127.0.0.1", leadsTo: []string{"127.0.0.1"}}, // whose hosts are all on this machine
		{host: "localhost", leadsTo: []string{"127.0.0.1", "::1"}},
		{host: "gpu-1", leadsTo: []string{"127.0.1.1", "10.0.0.9"}},
		{host: "gpu-1", leadsTo: []string{"127.0.1.1"}, refused: "127.0.1.1"},
		{host: "gpu-1", leadsTo: []string{"127.0.1.1", "fd00::9"}},
		{host: "gpu-1", framework: "horovod", leadsTo: []string{"127.0.1.1", "fd00::9"}, refused: "127.0.1.1"},
		{host: "gpu-1", framework: "horovod", leadsTo: []string{"127.0.1.1", "10.0.0.9"}},
	} {
		p := ranks.Program{Address: tt.host, Framework: tt.framework}
		var ips []net.IP
		for _, a := range tt.leadsTo {
			ips = append(ips, net.ParseIP(a))
		}
		want := "<nil>"
		if tt.refused != "" {
			want = fmt.Sprintf(refusal, tt.host, tt.refused)
		}
		if err := p.CheckAddress(ips); fmt.Sprint(err) != want {
			t.Errorf("%s of %s: %v, want %s", tt.host, tt.leadsTo, err, want)
		}
	}
}
