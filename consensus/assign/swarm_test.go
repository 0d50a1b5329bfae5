package assign_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/assign"
	"github.com/swarmd/swarmd/consensus/liveness"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

const operator = "spiffe://a.example/swarm/swci"

// fakeLog is a raft group of one that applies at once.
type fakeLog struct {
	mu      sync.Mutex
	s       *state.State
	changed chan struct{}
	leads   *assign.Scheduler // nil: nobody
	entries int
	check   func(old, next *state.State)
}

func (l *fakeLog) View() *state.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s
}

func (l *fakeLog) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *fakeLog) apply(c state.Command) (state.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, result, err := l.s.Apply(c)
	if err != nil {
		return result, err
	}
	l.check(l.s, next)
	if result.Changed {
		l.entries++
	}
	l.s = next
	close(l.changed)
	l.changed = make(chan struct{})
	return result, nil
}

// server is the log as one server has it, whose leadership comes and goes.
type server struct {
	*fakeLog
	scheduler *assign.Scheduler
}

func (s *server) IsLeader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads == s.scheduler
}

func (s *server) ProposeAsLeader(_ context.Context, c state.Command) (state.Result, error) {
	if !s.IsLeader() {
		return state.Result{}, errors.New("not the leader")
	}
	return s.apply(c)
}

// swarm is two servers, of which one leads, and hosts in virtual time.
type swarm struct {
	t       *testing.T
	log     *fakeLog
	servers []*server
	alive   *liveness.Tracker
	hosts   []*host
	running map[string]map[uint32]bool // by assignment: epochs with programs on some host
	mixed   int                        // how often programs of two epochs ran at a time
}

// inSwarm runs fn in a bubble with n hosts that listen on the default taskrunner and a finalised task "work".
func inSwarm(t *testing.T, n int, fn func(s *swarm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &swarm{t: t, alive: liveness.New(5*time.Second, "sn-0"), running: map[string]map[uint32]bool{}}
		s.log = &fakeLog{s: state.New(), changed: make(chan struct{}), check: s.check}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			srv := &server{fakeLog: s.log}
			srv.scheduler = assign.New(srv, slog.New(slog.DiscardHandler))
			s.servers = append(s.servers, srv)
			wg.Go(func() {
				if err := srv.scheduler.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		s.lead(0)
		s.do(state.InitSwarm{SwarmID: "swarm-1", AtMS: 1})
		for i := range n {
			h := &host{swarm: s, name: fmt.Sprintf("swop-%03d", i), rng: rand.New(rand.NewPCG(uint64(i), 5)), up: true, linked: true, jobs: task.JobsInContainers, heard: time.Now(), has: map[key]*program{}}
			s.hosts = append(s.hosts, h)
			h.listens(task.DefaultTaskrunner, 1)
		}
		s.do(state.CreateTask{Task: "work", TaskType: task.PullImage, Prereq: task.Root})
		s.do(state.EditTask{Task: "work", Line: 1, Text: []byte("Tag: 1")})
		s.do(state.FinaliseTask{Task: "work"})
		s.do(state.CreateTask{Task: "job", TaskType: task.RunJob, Prereq: task.Root, Jobs: true})
		s.do(state.EditTask{Task: "job", Line: 1, Text: []byte("name: job")})
		s.do(state.FinaliseTask{Task: "job"})
		fn(s)
		cancel()
		wg.Wait()
		if s.mixed > 0 {
			t.Errorf("programs of two epochs ran at a time, %d times", s.mixed)
		}
	})
}

func (s *swarm) do(c state.Command) {
	s.t.Helper()
	if _, err := s.log.apply(c); err != nil {
		s.t.Fatalf("%s: %v", c.Type(), err)
	}
}

// lead makes one server the leader; none for -1.
func (s *swarm) lead(i int) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.leads = nil
	if i >= 0 {
		s.log.leads = s.servers[i].scheduler
	}
	s.alive.Begin(time.Now())
}

// leader is the server that leads, or nil.
func (s *swarm) leader() *server {
	for _, srv := range s.servers {
		if srv.IsLeader() {
			return srv
		}
	}
	return nil
}

// check holds that there is one history: no verdict changes, and the state is without fault.
func (s *swarm) check(old, next *state.State) {
	if err := state.CheckChange(old, next); err != nil {
		s.t.Errorf("state: %v", err)
	}
	for id, a := range old.Tasks.Whole().Assignments {
		b := next.Tasks.Whole().Assignments[id]
		if a.Verdict != "" && (b == nil || a.Verdict != b.Verdict || a.Reason != b.Reason || a.End != b.End) {
			s.t.Errorf("assignment %s had the verdict %s (%s), then %+v", id, a.Verdict, a.Reason, b)
		}
	}
	if over := overfull(next); over != "" {
		s.t.Error(over)
	}
}

// assign hands the task to n peers of the default taskrunner, or of another assignment's form.
func (s *swarm) assign(id string, n uint32, change ...func(q *task.Request)) {
	s.t.Helper()
	q := task.Request{ID: id, Task: "work", Taskrunner: task.DefaultTaskrunner, Groups: []task.Group{{Name: "peers", Peers: n, Least: n}}, By: operator}
	for _, c := range change {
		c(&q)
	}
	s.do(state.AssignTask{Assignment: q, AtMS: time.Now().UnixMilli(), Strict: true})
}

// run lets the swarm run for a time, in steps of a heartbeat.
func (s *swarm) run(d time.Duration) {
	for range int(d / time.Second) {
		for _, h := range s.hosts {
			h.beat()
		}
		s.count()
		if s.leader() != nil {
			for _, c := range s.alive.Changes(s.log.View(), time.Now()) {
				s.do(c)
			}
		}
		pass(time.Second)
	}
}

// pass lets virtual time go by, without hosts.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// count looks at which epochs have programs that run.
func (s *swarm) count() {
	clear(s.running)
	for _, h := range s.hosts {
		for k, p := range h.has {
			if p.state != task.Started && p.state != task.Ready {
				continue
			}
			if s.running[k.id] == nil {
				s.running[k.id] = map[uint32]bool{}
			}
			s.running[k.id][k.epoch] = true
		}
	}
	for _, epochs := range s.running {
		if len(epochs) > 1 {
			s.mixed++
		}
	}
}

func (s *swarm) assignment(id string) *task.Assignment { return s.log.View().Tasks.Assignments[id] }

// over runs until an assignment is over, and returns it.
func (s *swarm) over(id string, within time.Duration) *task.Assignment {
	s.t.Helper()
	for range int(within / time.Second) {
		if a := s.assignment(id); a != nil && a.Phase == task.Over {
			return a
		}
		s.run(time.Second)
	}
	s.t.Fatalf("assignment %s is not over: %+v", id, s.assignment(id))
	return nil
}

// key names a program on a host, as a label does.
type key struct {
	id     string
	epoch  uint32
	member int
}

type program struct {
	state task.State
	code  int32
	text  string
	asks  string
	until time.Time // when it comes to its next state
}

// host carries out what it sees committed, as a SWOP does, and repeats its report with each heartbeat.
type host struct {
	cpus, gpus uint32 // that it offers
	swarm      *swarm
	name       string
	rng        *rand.Rand
	up         bool   // the machine runs
	linked     bool   // it reaches the SNs
	jobs       string // how it runs members of jobs
	heard      time.Time
	has        map[key]*program
	// fate is what comes of a program that prepares or has started; nil: it does its work.
	fate func(h *host, k key, p *program)
}

// listens registers the host with an offer.
func (h *host) listens(taskrunner string, peers uint32) {
	h.swarm.do(state.RegisterNode{
		Node:      state.Node{Name: h.name, Role: naming.RoleSWOP, PeerID: "key-" + h.name, Offer: &task.Offer{Taskrunner: taskrunner, Peers: peers, Jobs: h.jobs, CPUs: h.cpus, GPUs: h.gpus}},
		TokenHash: strings.Repeat("1", 64), AtMS: time.Now().UnixMilli(),
	})
}

// beat is one heartbeat: programs go on, the host hears of what is committed, acts on it, and reports.
func (h *host) beat() {
	if !h.up {
		return
	}
	for k, p := range h.has {
		h.goOn(k, p)
	}
	leader := h.swarm.leader()
	if h.linked && leader != nil {
		h.heard = time.Now()
		h.swarm.alive.Touch(h.name, time.Now())
		leader.scheduler.Record(h.reconcile())
	}
	for k := range h.has { // those are gone whose lease is over, and their grace
		over := int64(task.LeaseMS)
		if a := h.swarm.assignment(k.id); a != nil {
			over += a.GraceMS
		}
		if time.Since(h.heard) >= time.Duration(over)*time.Millisecond {
			delete(h.has, k)
		}
	}
}

// goOn lets a program come to its next state.
func (h *host) goOn(k key, p *program) {
	if time.Now().Before(p.until) {
		return
	}
	p.until = time.Now().Add(time.Duration(h.rng.IntN(5)) * time.Second)
	switch p.state {
	case task.Asked:
		p.state = task.Prepared
	case task.Started:
		p.state = task.Ready
	case task.Ready:
		p.state = task.Exited
	default:
		return
	}
	if h.fate != nil {
		h.fate(h, k, p)
	}
}

// reconcile compares what is committed with what there is, and returns the report.
func (h *host) reconcile() assign.HostReport {
	report, wanted := assign.HostReport{Node: h.name}, map[key]bool{}
	for _, a := range task.HostedOn(h.swarm.log.View().Tasks, h.name) {
		for _, m := range a.Members {
			k := key{a.ID, a.Epoch, int(m.Index)}
			p := h.member(m, k)
			r := assign.MemberReport{Assignment: a.ID, Epoch: a.Epoch, Report: task.Report{Member: m.Index, State: p.state, Code: p.code, Text: p.text, Asks: p.asks}}
			if p.state == task.Exited || p.state == task.Refused || p.state == task.Stopped {
				r.Cleaned = true
				delete(h.has, k)
			} else {
				wanted[k] = true
			}
			report.Members = append(report.Members, r)
		}
	}
	for k := range h.has {
		if !wanted[k] {
			delete(h.has, k)
		}
	}
	return report
}

// member has one member do what it may, and no more.
func (h *host) member(m task.HostedMember, k key) *program {
	p := h.has[k]
	switch {
	case m.Stop && p != nil && p.state == task.Exited:
		return p
	case m.Stop:
		return &program{state: task.Stopped}
	case p == nil && m.State == task.Placed:
		h.has[k] = &program{state: task.Asked, until: time.Now().Add(time.Duration(h.rng.IntN(4)) * time.Second)}
		return h.has[k]
	case p == nil:
		return &program{state: task.Exited, code: -1, text: "it is gone: its host was restarted"}
	case p.state == task.Prepared && m.Start:
		p.state, p.until = task.Started, time.Now().Add(time.Duration(h.rng.IntN(10))*time.Second)
	}
	return p
}
