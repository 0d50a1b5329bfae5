package work_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
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
	"github.com/swarmd/swarmd/internal/work"
)

// group is a raft group of one server, which leads at times.
type group struct {
	mu      sync.Mutex
	s       *state.State
	changed chan struct{}
	leads   bool
}

func (g *group) View() *state.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.s
}

func (g *group) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

func (g *group) IsLeader() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leads
}

func (g *group) lead(b bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leads = b
}

func (g *group) ProposeAsLeader(_ context.Context, c state.Command) (state.Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.leads {
		return state.Result{}, errors.New("not the leader")
	}
	next, result, err := g.s.Apply(c)
	if err != nil {
		return result, err
	}
	if err := state.CheckChange(g.s, next); err != nil {
		return result, err
	}
	g.s = next
	close(g.changed)
	g.changed = make(chan struct{})
	return result, nil
}

// machine is a host with all that there is on it, and the process that looks after it.
type machine struct {
	t      *testing.T
	name   string
	group  *group
	rng    *rand.Rand
	linked bool
	mu     sync.Mutex
	has    map[work.Label]*work.Status
	busy   map[work.Label]bool
	until  map[work.Label]time.Time
	last   []task.Hosted // what was shown last: a host that hears nothing knows nothing newer
	known  bool
	since  time.Time // when its process first heard of the swarm
	change chan struct{}
	host   *work.Host // nil: it is down
	ends   func()
}

func (m *machine) Hosted() ([]task.Hosted, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.known
}

func (m *machine) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change
}

// Task fetches from the swarm, which may be out of reach.
func (m *machine) Task(_ context.Context, name string) (*task.Task, error) {
	if !m.linked {
		return nil, errors.New("no SN answers")
	}
	return m.group.View().Tasks.Task(name), nil
}

func (m *machine) Consent(context.Context, task.Hosted, *task.Task) work.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.rng.IntN(20) {
	case 0:
		return work.Answer{Why: "no"}
	case 1, 2, 3:
		return work.Answer{May: work.NotYet, Why: "ask ann"}
	}
	return work.Answer{May: work.Yes}
}

// Stays says yes mostly: its owner may have changed the policy.
func (m *machine) Stays(context.Context, task.Hosted, *task.Task) work.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rng.IntN(20) == 0 {
		return work.Answer{Why: "no more"}
	}
	return work.Answer{May: work.Yes}
}

func (m *machine) Tells(string) bool { return true }

func (m *machine) Ended(string, uint32, string) error { return nil }

func (m *machine) PartEnded(task.Part) error { return nil }

func (m *machine) HasEnded(task.Part) bool { return false }

func (m *machine) AddressOnce(_ task.Part, ip string) (string, error) { return ip, nil }

func (m *machine) Until(string, uint32) (at time.Time, why string) { return at, why }

// does is one call of an executor: nobody else works for the member meanwhile.
func (m *machine) does(ctx context.Context, l work.Label) (err error) {
	m.mu.Lock()
	if m.busy[l] {
		m.t.Errorf("two work for %v", l)
	}
	m.busy[l] = true
	d, bad := time.Duration(m.rng.IntN(4000))*time.Millisecond, m.rng.IntN(15) == 0
	m.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		err = ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, l)
	if bad && err == nil {
		err = errors.New("the engine had a bad day")
	}
	return err
}

func (m *machine) set(l work.Label, s work.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.has[l], m.until[l] = &s, time.Now().Add(m.while())
}

// while is how long a program stays what it is: seconds, or minutes.
func (m *machine) while() time.Duration {
	if m.rng.IntN(3) == 0 {
		return time.Duration(m.rng.IntN(400)) * time.Second
	}
	return time.Duration(m.rng.IntN(20)) * time.Second
}

func (m *machine) Prepare(ctx context.Context, j work.Job) error {
	m.set(j.Label, work.Status{State: task.Prepared})
	return m.does(ctx, j.Label)
}

func (m *machine) Start(ctx context.Context, j work.Job) (work.Status, error) {
	m.set(j.Label, work.Status{State: task.Started})
	return work.Status{State: task.Started}, m.does(ctx, j.Label)
}

func (m *machine) Find(context.Context) (all []work.Found, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l, s := range m.has {
		all = append(all, work.Found{Label: l, Status: *s})
	}
	if m.rng.IntN(10) == 0 {
		return nil, errors.New("the engine does not answer")
	}
	return all, nil
}

func (m *machine) Clean(ctx context.Context, l work.Label) error {
	err := m.does(ctx, l)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		delete(m.has, l)
	}
	return err
}

// up starts the host's process.
func (m *machine) up() {
	m.known, m.last, m.change = false, nil, make(chan struct{})
	m.host = work.New(work.Config{
		SwarmID: swarmID, Node: m.name, Swarm: m, Tasks: m, Guard: m, Types: map[string]work.Type{task.PullImage: {Executor: m}}, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.host.Run(ctx); err != nil {
			m.t.Error(err)
		}
	}()
	m.ends = func() { cancel(); <-done; m.host = nil }
}

// beat is one heartbeat: programs go on, and the host tells and hears.
func (m *machine) beat(s *assign.Scheduler, alive *liveness.Tracker) {
	m.mu.Lock()
	for l, status := range m.has {
		if status.State == task.Prepared || time.Now().Before(m.until[l]) {
			continue
		}
		m.until[l] = time.Now().Add(m.while())
		switch status.State {
		case task.Started:
			status.State = task.Ready
		case task.Ready:
			status.State, status.Code = task.Exited, int32(m.rng.IntN(12)/11) //nolint:gosec // 0 or 1
		default:
		}
	}
	m.mu.Unlock()
	if m.host == nil || !m.linked || !m.group.IsLeader() {
		return
	}
	s.Record(assign.HostReport{Node: m.name, Members: m.host.Report()})
	alive.Touch(m.name, time.Now())
	m.host.Heard(time.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		m.since = time.Now()
	}
	m.last, m.known = task.HostedOn(m.group.View().Tasks, m.name), true
	close(m.change)
	m.change = make(chan struct{})
}

// TestRandomHistories holds, under faults of leader, links, hosts, engines and programs, that each assignment comes to one end, that what is
// on the hosts then is nothing, and that programs of two epochs of an assignment never run at a time.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { history(t, rand.New(rand.NewPCG(seed, 18))) })
		})
	}
}

func history(t *testing.T, rng *rand.Rand) {
	g := &group{s: state.New(), changed: make(chan struct{}), leads: true}
	do := func(c state.Command) {
		t.Helper()
		if _, err := g.ProposeAsLeader(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", c.Type(), err)
		}
	}
	do(state.InitSwarm{SwarmID: swarmID, AtMS: 1})
	scheduler, alive := assign.New(g, slog.New(slog.DiscardHandler)), liveness.New(5*time.Second, "sn-0")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = scheduler.Run(ctx) }()
	alive.Begin(time.Now())
	var machines []*machine
	defer func() {
		for _, m := range machines {
			if m.host != nil {
				m.ends()
			}
		}
		cancel()
		<-done
	}()
	for i := range 4 {
		m := &machine{t: t, name: fmt.Sprintf("swop-%d", i), group: g, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), linked: true, has: map[work.Label]*work.Status{}, busy: map[work.Label]bool{}, until: map[work.Label]time.Time{}}
		do(state.RegisterNode{Node: state.Node{Name: m.name, Role: naming.RoleSWOP, PeerID: "key-" + m.name, Offer: &task.Offer{Taskrunner: task.DefaultTaskrunner, Peers: 1}}, TokenHash: strings.Repeat("1", 64), AtMS: time.Now().UnixMilli()})
		m.up()
		machines = append(machines, m)
	}
	do(state.CreateTask{Task: "work", TaskType: task.PullImage, Prereq: task.Root})
	do(state.EditTask{Task: "work", Line: 1, Text: []byte("Tag: 1")})
	do(state.FinaliseTask{Task: "work"})
	run := func(seconds int) {
		for range seconds {
			for _, m := range machines {
				m.beat(scheduler, alive)
			}
			if g.IsLeader() {
				for _, c := range alive.Changes(g.View(), time.Now()) {
					do(c)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			oneEpoch(t, machines)
		}
	}
	for id := range 2 {
		q := task.Request{ID: fmt.Sprint(id + 1), Task: "work", Taskrunner: task.DefaultTaskrunner, Groups: []task.Group{{Name: "peers", Peers: 3, Least: uint32(1 + rng.IntN(3))}}, Retries: uint32(rng.IntN(3)), TimeoutMS: int64(rng.IntN(2)) * 300_000} //nolint:gosec // small
		do(state.AssignTask{Assignment: q, AtMS: time.Now().UnixMilli(), Strict: true})
		for range rng.IntN(8) {
			fault(rng, g, alive, machines)
			run(1 + rng.IntN(90))
		}
		for _, m := range machines {
			if m.linked = true; m.host == nil {
				m.up()
			}
		}
		if !g.IsLeader() {
			alive.Begin(time.Now())
			g.lead(true)
		}
		cancels := rng.IntN(4) == 0
		for i := 0; g.View().Tasks.Assignments[q.ID].Phase != task.Over; i++ {
			a := g.View().Tasks.Assignments[q.ID]
			if cancels || len(a.Avoid) > 1 { // too few are left who would
				do(state.CancelAssignment{Assignment: q.ID, Reason: "enough", AtMS: time.Now().UnixMilli()})
			}
			if i > 3600 {
				t.Fatalf("not over: %+v", a)
			}
			run(1)
		}
		for i := 0; i < 120 && slices.ContainsFunc(machines, func(m *machine) bool { return len(m.has) > 0 }); i++ {
			run(1)
		}
		for _, m := range machines {
			if len(m.has) > 0 {
				t.Errorf("assignment %s is over, and %s still has %v", q.ID, m.name, m.has)
			}
		}
	}
}

// fault is one thing that goes wrong, or right again.
func fault(rng *rand.Rand, g *group, alive *liveness.Tracker, machines []*machine) {
	m := machines[rng.IntN(len(machines))]
	switch rng.IntN(4) {
	case 0:
		if !g.IsLeader() {
			alive.Begin(time.Now())
		}
		g.lead(!g.IsLeader())
	case 1:
		m.linked = !m.linked
	case 2:
		if m.host == nil {
			m.up()
		} else {
			m.ends()
		}
	case 3:
		if m.host != nil {
			m.ends()
			m.up()
		}
	}
}

// oneEpoch holds that of each assignment programs of one epoch run, on hosts that have had time to end what is left from before: without a
// process nothing can be ended.
func oneEpoch(t *testing.T, machines []*machine) {
	epochs := map[string]uint32{}
	for _, m := range machines {
		m.mu.Lock()
		for l, s := range m.has {
			if m.host == nil || !m.known || time.Since(m.since) < 15*time.Second || s.State != task.Started && s.State != task.Ready {
				continue
			}
			if other, some := epochs[l.Assignment]; some && other != l.Epoch {
				t.Errorf("programs of the epochs %d and %d of assignment %s run at a time", other, l.Epoch, l.Assignment)
			}
			epochs[l.Assignment] = l.Epoch
		}
		m.mu.Unlock()
	}
}
