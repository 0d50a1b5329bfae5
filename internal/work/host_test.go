package work_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
)

const (
	node    = "swop-1"
	swarmID = "swarm-1"
)

// shown is the swarm as a test shows it to its host.
type shown struct {
	mu      sync.Mutex
	known   bool
	all     []task.Hosted
	changed chan struct{}
}

func newShown() *shown { return &shown{changed: make(chan struct{})} }

func (s *shown) Hosted() ([]task.Hosted, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, s.known
}

func (s *shown) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *shown) show(all ...task.Hosted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.known = all, true
	close(s.changed)
	s.changed = make(chan struct{})
}

// tasks are those of the swarm.
type tasks struct {
	t   *task.Task
	err error
}

func (t *tasks) Task(_ context.Context, name string) (*task.Task, error) {
	if t.err != nil {
		return nil, t.err
	}
	if name != t.t.Name {
		return nil, errors.New("no task " + name)
	}
	return t.t, nil
}

// guard answers as a test has it; empty: yes.
type guard struct {
	mu      sync.Mutex
	answer  work.Answer
	asked   int
	stays   work.Answer
	again   int // how often it was asked about what runs
	silent  bool
	ended   []string
	parts   map[task.Part]bool // that have ended
	told    map[task.Part]string
	fails   error // to keep what was told
	forgets bool  // that it has begun anything
	until   time.Time
}

func (g *guard) Until(assignment string, epoch uint32) (time.Time, string) {
	if assignment != "7" || epoch != 1 {
		return time.Time{}, ""
	}
	return g.until, "the owner has had enough"
}

func (g *guard) Consent(context.Context, task.Hosted, *task.Task) work.Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	return g.answer
}

func (g *guard) Stays(context.Context, task.Hosted, *task.Task) work.Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.again++
	return g.stays
}

func (g *guard) Tells(string) bool { return !g.silent }

func (g *guard) Ended(assignment string, epoch uint32, words string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = append(g.ended, fmt.Sprint(assignment, " ", epoch, " ", words))
	return nil
}

func (g *guard) PartEnded(p task.Part) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parts == nil {
		g.parts = map[task.Part]bool{}
	}
	g.parts[p] = true
	return nil
}

func (g *guard) HasEnded(p task.Part) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.parts[p]
}

func (g *guard) AddressOnce(p task.Part, ip string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told == nil {
		g.told = map[task.Part]string{}
	}
	if ip != "" && g.told[p] == "" && g.fails == nil && !g.forgets {
		g.told[p] = ip
	}
	return g.told[p], g.fails
}

func (g *guard) say(a work.Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = a
}

func (g *guard) stay(a work.Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stays = a
}

// world is what there is on a host: it outlives the process that looks after it.
type world struct {
	mu       sync.Mutex
	t        *testing.T
	has      map[work.Label]*work.Status
	busy     map[work.Label]string // what is being done for a member
	calls    []string
	images   []*policy.Image // of the jobs
	prepares time.Duration
	starts   time.Duration
	wrong    map[string]error // by method
	result   work.Status      // of Start
}

func newWorld(t *testing.T) *world {
	return &world{t: t, has: map[work.Label]*work.Status{}, busy: map[work.Label]string{}, wrong: map[string]error{}, result: work.Status{State: task.Started}}
}

// do is one call of an executor, which takes time.
func (w *world) do(ctx context.Context, l work.Label, what string, d time.Duration) error {
	w.mu.Lock()
	if other := w.busy[l]; other != "" {
		w.t.Errorf("%s of %v during %s", what, l, other)
	}
	w.busy[l] = what
	w.calls = append(w.calls, what)
	w.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, l)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return w.wrong[what]
}

func (w *world) set(l work.Label, s work.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.has[l] = &s
}

func (w *world) uses(image *policy.Image) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.images = append(w.images, image)
}

func (w *world) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.has)
}

func (w *world) vanish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.has)
}

func (w *world) fail(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong[what] = err
}

func (w *world) Prepare(ctx context.Context, j work.Job) error {
	w.set(j.Label, work.Status{State: task.Prepared}) // begun
	w.uses(j.Image)
	return w.do(ctx, j.Label, "prepare", w.prepares)
}

func (w *world) Start(ctx context.Context, j work.Job) (work.Status, error) {
	w.uses(j.Image)
	if err := w.do(ctx, j.Label, "start", w.starts); err != nil {
		return work.Status{}, err
	}
	if w.result.State != task.Exited {
		w.set(j.Label, w.result)
	}
	return w.result, nil
}

// Find implements work.Executor. With context.DeadlineExceeded it hangs as long as it may.
func (w *world) Find(ctx context.Context) (all []work.Found, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.wrong["find"]; errors.Is(err, context.DeadlineExceeded) {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return nil, err
	}
	for l, s := range w.has {
		all = append(all, work.Found{Label: l, Status: *s})
	}
	return all, w.wrong["find"]
}

func (w *world) Clean(ctx context.Context, l work.Label) error {
	if err := w.do(ctx, l, "clean", 0); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.has, l)
	return nil
}

// lab is one host in virtual time.
type lab struct {
	t     *testing.T
	swarm *shown
	tasks *tasks
	guard *guard
	world *world
	host  *work.Host
	kind  work.Type
	where func(context.Context, string, uint32) ([]task.Site, error)
	ends  func()
	said  []string // what was reported, each once
	looks [][]work.Found
}

func inLab(t *testing.T, fn func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		the := &task.Task{Name: "work", Type: task.RunSwarm, Prereq: task.Root, Definition: []byte("Tag: 1\n")}
		the.Digest = the.Sum()
		l := &lab{t: t, swarm: newShown(), tasks: &tasks{t: the}, guard: &guard{answer: work.Answer{May: work.Yes}, stays: work.Answer{May: work.Yes}}, world: newWorld(t)}
		l.start()
		fn(l)
		l.ends()
	})
}

// start begins a process that looks after the host.
func (l *lab) start() {
	if l.kind.Executor == nil {
		l.kind.Executor = l.world
	}
	l.kind.Saw = func(found []work.Found, _ error) { l.looks = append(l.looks, found) }
	l.host = work.New(work.Config{
		SwarmID: swarmID, Node: node, Swarm: l.swarm, Tasks: l.tasks, Guard: l.guard, World: l.where,
		Types: map[string]work.Type{task.RunSwarm: l.kind, task.MakeUserContainer: {Refuses: "no builds here: start it with an engine"}}, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.host.Run(ctx); err != nil {
			l.t.Error(err)
		}
	}()
	l.ends = func() { cancel(); <-done }
}

// restart ends the process, and begins another.
func (l *lab) restart() {
	l.ends()
	l.swarm = newShown()
	l.start()
}

// left has there be something of a member from before this process.
func (l *lab) left(s work.Status) {
	l.world.set(label(1), s)
	l.restart() // a process that has looked before would take it for gone
}

// beat lets time pass with a leader that answers.
func (l *lab) beat(d time.Duration) {
	for ; d > 0; d -= time.Second {
		l.host.Heard(time.Now())
		l.away(time.Second)
	}
}

// away lets time pass without a leader.
func (l *lab) away(d time.Duration) {
	for ; d > 0; d -= time.Second {
		time.Sleep(min(d, time.Second))
		synctest.Wait()
		for _, r := range l.host.Report() {
			say := strings.TrimSuffix(fmt.Sprintf("%s %d %s", r.State, r.Code, r.Text), " 0 ")
			if r.Asks != "" {
				say += " asks to " + r.Asks
			}
			if r.Cleaned {
				say += " cleaned"
			}
			if len(l.said) == 0 || l.said[len(l.said)-1] != say {
				l.said = append(l.said, say)
			}
		}
	}
}

// shows has the swarm show one member.
func (l *lab) shows(epoch uint32, m task.HostedMember, change ...func(*task.Hosted)) {
	h := task.Hosted{Request: task.Request{ID: "7", Task: "work", Digest: l.tasks.t.Digest}, Epoch: epoch, Phase: task.Preparing, Members: []task.HostedMember{m}}
	for _, c := range change {
		c(&h)
	}
	l.swarm.show(h)
}

func label(epoch uint32) work.Label {
	return work.Label{Swarm: swarmID, Node: node, Assignment: "7", Epoch: epoch}
}

func (l *lab) wantSaid(want ...string) {
	l.t.Helper()
	if d := cmp.Diff(want, l.said); d != "" {
		l.t.Errorf("reported (-want +got):\n%s", d)
	}
}

func (l *lab) wantCalls(want ...string) {
	l.t.Helper()
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if d := cmp.Diff(want, l.world.calls); d != "" {
		l.t.Errorf("calls (-want +got):\n%s", d)
	}
}

func TestMemberFromPlacedToCleaned(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.prepares = 3 * time.Second
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(10 * time.Second)
		l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
		l.beat(5 * time.Second)
		l.world.set(label(1), work.Status{State: task.Ready})
		l.beat(5 * time.Second)
		if n := len(l.looks); n == 0 || len(l.looks[n-1]) != 1 || l.looks[n-1][0].State != task.Ready {
			t.Errorf("who asked what looks find was told %v", l.looks)
		}
		l.world.set(label(1), work.Status{State: task.Exited, Code: 3, Text: "no data\x1b[31m"})
		l.beat(5 * time.Second)
		l.wantSaid("asked", "prepared", "started", "ready", "exited 3 no data cleaned")
		l.wantCalls("prepare", "start", "clean")
		if l.world.size() != 0 {
			t.Error("something is left")
		}
		if d := cmp.Diff([]string{"7 1 exited with code 3: no data"}, l.guard.ended); d != "" {
			t.Errorf("the guard was told (-want +got):\n%s", d)
		}
	})
}

// TestAHostActsAtOnce holds that nothing of a host waits for its next look at the clock: what it is shown it carries out, and what has become
// of that is news.
func TestAHostActsAtOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		l.shows(1, task.HostedMember{State: task.Placed, Stop: true})
		l.beat(2 * time.Second)
		l.wantCalls("clean")
		now, news := time.Now(), l.host.News()
		l.shows(2, task.HostedMember{State: task.Placed}) // it has just looked at what there is
		synctest.Wait()
		l.wantCalls("clean", "prepare")
		select {
		case <-news:
		default:
			t.Error("nobody was told that there is news")
		}
		l.shows(2, task.HostedMember{State: task.Prepared, Start: true})
		synctest.Wait()
		l.wantCalls("clean", "prepare", "start")
		if r := l.host.Report(); len(r) != 1 || r[0].State != task.Started || !time.Now().Equal(now) {
			t.Errorf("%v after the barrier was passed it says %v", time.Since(now), r)
		}
	})
}

func TestMemberThatDoesItsWorkInStart(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.result, l.world.starts = work.Status{State: task.Exited}, 5*time.Second
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(2 * time.Second)
		l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
		l.beat(2 * time.Second)
		l.wantSaid("prepared", "started")
		l.beat(10 * time.Second)
		l.wantSaid("prepared", "started", "exited cleaned")
	})
}

func TestGuardIsAskedAgainAndObeyed(t *testing.T) {
	inLab(t, func(l *lab) {
		l.guard.say(work.Answer{May: work.NotYet, Why: "waiting for ann"})
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(20 * time.Second)
		l.wantCalls()
		if l.guard.asked < 5 {
			t.Errorf("asked %d times", l.guard.asked)
		}
		l.guard.say(work.Answer{May: work.NotYet, Why: "waiting for ann; bob does not count"})
		l.beat(5 * time.Second)
		l.guard.say(work.Answer{Why: "ann said no"})
		l.beat(5 * time.Second)
		l.wantSaid("asked 0 waiting for ann", "asked 0 waiting for ann; bob does not count", "refused 0 ann said no cleaned")
		l.wantCalls("clean")
	})
}

// TestTheImageOfTheAnswerIsUsed: an executor is given the image that the guard let through, also by a host that was restarted before the start.
func TestTheImageOfTheAnswerIsUsed(t *testing.T) {
	inLab(t, func(l *lab) {
		image := &policy.Image{Name: "a:1", ID: "sha256:1"}
		l.guard.say(work.Answer{May: work.Yes, Image: image})
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(5 * time.Second)
		l.restart()
		l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
		l.beat(5 * time.Second)
		l.wantCalls("prepare", "prepare", "start")
		for _, used := range l.world.images {
			if used != image {
				t.Errorf("used %v", used)
			}
		}
	})
}

// TestAWordIsHeardAtOnce: the guard is asked about each new word, which another may replace soon.
func TestAWordIsHeardAtOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		l.guard.say(work.Answer{May: work.NotYet, Why: "ask ann"})
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(3 * time.Second)
		asked, now := l.guard.asked, time.Now()
		for n := range uint64(3) {
			l.shows(1, task.HostedMember{State: task.Asked}, func(h *task.Hosted) { h.Approvals = []task.Approval{{Number: n + 1}} })
			synctest.Wait()
		}
		if got := l.guard.asked - asked; got != 3 || !time.Now().Equal(now) {
			t.Errorf("asked %d times in %v", got, time.Since(now))
		}
	})
}

func TestTaskThatIsNotWhatWasAssigned(t *testing.T) {
	for name, change := range map[string]struct {
		do   func(l *lab)
		want string
	}{
		"another digest":     {func(l *lab) { l.tasks.t.Definition = []byte("Tag: 2\n") }, "has not its digest"},
		"not to be had":      {func(l *lab) { l.tasks.err = errors.New("no SN answers") }, "can't fetch task work: no SN answers"},
		"type not done here": {func(l *lab) { l.tasks.t.Type = task.PullImage; l.tasks.t.Digest = l.tasks.t.Sum() }, "no tasks of type PULL_IMAGE"},
		"refused by type":    {func(l *lab) { l.tasks.t.Type = task.MakeUserContainer; l.tasks.t.Digest = l.tasks.t.Sum() }, "start it with an engine"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				change.do(l)
				l.shows(1, task.HostedMember{State: task.Placed})
				l.beat(time.Minute)
				if len(l.said) == 0 || !strings.HasPrefix(l.said[0], "refused") || !strings.Contains(l.said[0], change.want) || !strings.HasSuffix(l.said[len(l.said)-1], "cleaned") {
					t.Errorf("reported %q", l.said)
				}
				if l.guard.asked > 0 {
					t.Error("the guard was asked")
				}
			})
		})
	}
}

func TestTaskIsFetchedThoughASNIsAwayForAWhile(t *testing.T) {
	inLab(t, func(l *lab) {
		l.tasks.err = errors.New("no SN answers")
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(10 * time.Second)
		l.tasks.err = nil
		l.beat(10 * time.Second)
		l.wantSaid("prepared")
	})
}

func TestStopAtEachStage(t *testing.T) {
	for _, at := range []task.State{task.Placed, task.Asked, task.Prepared, task.Started, task.Ready} {
		t.Run(string(at), func(t *testing.T) {
			inLab(t, func(l *lab) {
				if at == task.Asked {
					l.world.prepares = time.Hour // it is stopped in the middle
				}
				if at == task.Placed {
					l.shows(1, task.HostedMember{State: task.Placed, Stop: true})
				} else {
					l.shows(1, task.HostedMember{State: task.Placed})
					l.beat(5 * time.Second)
				}
				if at == task.Started || at == task.Ready {
					l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
					l.beat(5 * time.Second)
				}
				if at == task.Ready {
					l.world.set(label(1), work.Status{State: task.Ready})
					l.beat(5 * time.Second)
				}
				l.world.fail("clean", errors.New("engine is busy"))
				l.shows(1, task.HostedMember{State: at, Stop: true}, func(h *task.Hosted) { h.Phase = task.Ending })
				l.beat(5 * time.Second)
				if last := strings.Join(l.said, ","); strings.Contains(last, "stopped") {
					t.Errorf("reported %s while something was left", last)
				}
				l.world.fail("clean", nil)
				l.beat(time.Minute)
				if len(l.said) == 0 || l.said[len(l.said)-1] != "stopped cleaned" || l.world.size() > 0 {
					t.Errorf("reported %q, %d are left", l.said, l.world.size())
				}
			})
		})
	}
}

func TestRestartAtEachStage(t *testing.T) {
	for _, test := range []struct {
		committed task.HostedMember
		has       task.State // of what is on the host; empty: nothing is
		repeats   bool
		want      string
		calls     []string
	}{
		{task.HostedMember{State: task.Placed}, "", false, "prepared", []string{"prepare"}},
		{task.HostedMember{State: task.Asked}, task.Prepared, false, "prepared", []string{"prepare"}},
		{task.HostedMember{State: task.Prepared}, task.Prepared, false, "prepared", []string{"prepare"}},
		{task.HostedMember{State: task.Prepared, Start: true}, task.Prepared, false, "started", []string{"prepare", "start"}},
		{task.HostedMember{State: task.Prepared, Start: true}, task.Started, false, "started", nil},
		{task.HostedMember{State: task.Started, Start: true}, task.Ready, false, "ready", nil},
		{task.HostedMember{State: task.Started, Start: true}, task.Exited, false, "exited cleaned", []string{"clean"}},
		{task.HostedMember{State: task.Started, Start: true}, "", false, "exited -1 it is gone: its host was restarted, and nothing of it is left cleaned", []string{"clean"}},
		{task.HostedMember{State: task.Started, Start: true}, "", true, "started", []string{"prepare", "start"}},
		{task.HostedMember{State: task.Ready, Stop: true}, task.Ready, false, "stopped cleaned", []string{"clean"}},
		{task.HostedMember{State: task.Exited, Stop: true}, task.Exited, false, "stopped cleaned", []string{"clean"}},
	} {
		t.Run(fmt.Sprintf("%s, %s", test.committed.State, test.has), func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.kind.Repeats = test.repeats
				if test.has != "" {
					l.world.set(label(1), work.Status{State: test.has})
				}
				l.restart()
				l.beat(10 * time.Second) // nothing is ended or begun before the swarm has said what it wants
				l.wantCalls()
				l.shows(1, test.committed)
				l.beat(10 * time.Second)
				if len(l.said) == 0 || l.said[len(l.said)-1] != test.want {
					t.Errorf("reported %q, want %q", l.said, test.want)
				}
				l.wantCalls(test.calls...)
			})
		})
	}
}

func TestLease(t *testing.T) {
	inLab(t, func(l *lab) {
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(5 * time.Second)
		l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
		l.beat(5 * time.Second)
		l.away(task.LeaseMS*time.Millisecond - 2*time.Second)
		l.wantCalls("prepare", "start")
		l.away(4 * time.Second)
		l.wantCalls("prepare", "start", "clean")
		l.beat(5 * time.Second)
		const over = "exited -1 no leader of the swarm answered its host for 1m0s cleaned"
		if l.said[len(l.said)-1] != over || l.world.size() > 0 {
			t.Errorf("reported %q, %d are left", l.said, l.world.size())
		}
	})
}

func TestLeaseOfARestartedHostThatHearsNobody(t *testing.T) {
	inLab(t, func(l *lab) {
		l.left(work.Status{State: task.Ready})
		l.away(task.LeaseMS*time.Millisecond - 2*time.Second)
		l.wantCalls()
		l.away(4 * time.Second)
		l.wantCalls("clean")
	})
}

func TestNoEpochBeginsBesideAnother(t *testing.T) {
	inLab(t, func(l *lab) {
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(5 * time.Second)
		l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
		l.beat(5 * time.Second)
		l.world.fail("clean", errors.New("engine is busy"))
		l.shows(2, task.HostedMember{State: task.Placed}) // the host was lost and came back
		l.beat(10 * time.Second)
		if n := strings.Count(strings.Join(l.world.calls, " "), "prepare"); n != 1 {
			t.Errorf("prepared %d times while there was something of the last epoch", n)
		}
		l.world.fail("clean", nil)
		l.beat(time.Minute)
		if l.said[len(l.said)-1] != "prepared" || l.world.size() != 1 {
			t.Errorf("reported %q, %d are there", l.said, l.world.size())
		}
	})
}

func TestWhatTheSwarmDoesNotKnowIsEnded(t *testing.T) {
	inLab(t, func(l *lab) {
		other := label(1)
		other.Swarm = "another"
		l.world.set(other, work.Status{State: task.Ready})
		l.world.set(label(1), work.Status{State: task.Ready})
		l.swarm.show()
		l.beat(time.Minute)
		l.wantCalls("clean")
		if _, there := l.world.has[other]; l.world.size() != 1 || !there {
			t.Errorf("left: %v", l.world.has)
		}
		l.world.set(label(1), work.Status{State: task.Prepared}) // an engine was slow
		l.beat(time.Minute)
		l.wantCalls("clean", "clean")
	})
}

func TestErrorsOfExecutorsEndTheMember(t *testing.T) {
	for _, what := range []string{"prepare", "start"} {
		inLab(t, func(l *lab) {
			l.world.fail(what, errors.New("disk is full"))
			l.shows(1, task.HostedMember{State: task.Placed})
			l.beat(5 * time.Second)
			l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
			l.beat(5 * time.Second)
			if l.said[len(l.said)-1] != "exited -1 disk is full cleaned" {
				t.Errorf("reported %q", l.said)
			}
		})
	}
}

func TestTimeoutHoldsWithoutALeader(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.prepares = time.Hour
		l.shows(1, task.HostedMember{State: task.Placed}, func(h *task.Hosted) { h.TimeoutMS = 20_000 })
		l.away(30 * time.Second)
		l.wantSaid("asked", "exited -1 timed out on its host after 20s cleaned")
		l.wantCalls("prepare", "clean")
	})
}

// TestTimeoutCountsFromWhenItWasReceived: a restarted host has no new one.
func TestTimeoutCountsFromWhenItWasReceived(t *testing.T) {
	for _, runs := range []bool{false, true} {
		inLab(t, func(l *lab) {
			since := time.Now().Add(-15 * time.Second)
			l.guard.answer.Since, l.guard.stays.Since = since, since
			l.world.prepares = time.Hour
			committed := task.HostedMember{State: task.Placed}
			if runs {
				l.left(work.Status{State: task.Started})
				committed = task.HostedMember{State: task.Started, Start: true}
			}
			l.shows(1, committed, func(h *task.Hosted) { h.TimeoutMS = 20_000 })
			l.beat(3 * time.Second)
			if n := len(l.said); n > 0 && strings.Contains(l.said[n-1], "timed out") {
				t.Errorf("reported %q too early", l.said)
			}
			l.beat(4 * time.Second)
			if n := len(l.said); n == 0 || l.said[n-1] != "exited -1 timed out on its host after 20s cleaned" {
				t.Errorf("it runs: %v; reported %q", runs, l.said)
			}
		})
	}
}

// TestTheOwnerIsAskedAboutWhatRuns: a restarted host goes on with it meanwhile, and ends what the owner refuses now.
func TestTheOwnerIsAskedAboutWhatRuns(t *testing.T) {
	for _, may := range []work.May{work.Yes, work.No} {
		inLab(t, func(l *lab) {
			l.guard.stays = work.Answer{May: may, Why: "the policy refuses it"}
			l.tasks.err = errors.New("no SN answers")
			l.left(work.Status{State: task.Ready})
			l.shows(1, task.HostedMember{State: task.Started, Start: true})
			l.beat(time.Minute) // longer than any fetch is tried for
			l.wantCalls()
			l.tasks.err = nil
			l.beat(5 * time.Second)
			want := []string{"ready"}
			if may == work.No {
				want = append(want, "exited -1 the policy refuses it cleaned")
			}
			l.wantSaid(want...)
			if l.guard.again != 1 || l.guard.asked != 0 {
				t.Errorf("asked %d times whether what runs may go on, and %d times whether it may begin", l.guard.again, l.guard.asked)
			}
		})
	}
}

// TestWhatRunsIsAskedAboutUntilSomebodyCanSay: it goes on meanwhile, and its end is seen. What the owner refuses then is ended.
func TestWhatRunsIsAskedAboutUntilSomebodyCanSay(t *testing.T) {
	for may, want := range map[work.May][]string{
		work.Yes: {"ready"}, work.No: {"ready", "exited -1 the policy refuses it cleaned"}, work.NotYet: {"ready", "exited cleaned"},
	} {
		inLab(t, func(l *lab) {
			l.guard.stay(work.Answer{May: work.NotYet, Why: "nobody can look"})
			l.world.set(label(1), work.Status{State: task.Ready})
			l.shows(1, task.HostedMember{State: task.Started, Start: true})
			l.beat(5*time.Minute + time.Second)
			l.wantSaid("ready")
			if l.guard.again < 10 || l.guard.again > 11 {
				t.Errorf("asked %d times in five minutes", l.guard.again)
			}
			if may == work.NotYet {
				l.world.set(label(1), work.Status{State: task.Exited})
			} else {
				l.guard.stay(work.Answer{May: may, Why: "the policy refuses it"})
			}
			l.beat(time.Minute)
			l.wantSaid(want...)
			if n := l.guard.again; n > 12 || l.guard.asked != 0 {
				t.Errorf("asked %d times, and %d times whether it may begin", n, l.guard.asked)
			}
		})
	}
}

// TestWhatAProgramPrintsIsTheOwners: it is told where the owner lets logs go to who has asked, also of what a restarted host finds ended.
func TestWhatAProgramPrintsIsTheOwners(t *testing.T) {
	for _, tt := range []struct {
		silent, found bool
		says          work.Status
		want          string
	}{
		{false, false, work.Status{Said: "patient 7"}, "exited 3 patient 7 cleaned"},
		{false, true, work.Status{Said: "patient 7", Text: "no memory"}, "exited 3 patient 7 | no memory cleaned"},
		{true, false, work.Status{Said: "patient 7"}, "exited 3 what it printed stays on its host, by the policy there: see the host's log cleaned"},
		{true, true, work.Status{Said: "patient 7"}, "exited 3 what it printed stays on its host, by the policy there: see the host's log cleaned"},
		{true, false, work.Status{Said: "patient 7", Text: "no memory"}, "exited 3 no memory cleaned"},
		{true, false, work.Status{}, "exited 3  cleaned"},
	} {
		inLab(t, func(l *lab) {
			tt.says.State, tt.says.Code, l.guard.silent = task.Exited, 3, tt.silent
			if tt.found {
				l.left(tt.says)
			} else {
				l.world.result = tt.says
			}
			l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
			l.beat(5 * time.Second)
			if n := len(l.said); n == 0 || l.said[n-1] != tt.want {
				t.Errorf("%+v: reported %q", tt, l.said)
			}
			if said := fmt.Sprint(l.guard.ended); tt.silent && strings.Contains(said, "patient") {
				t.Errorf("the journal has %s", said)
			}
		})
	}
}

// TestTheOwnersTimeIsNotPutOffByARestart holds that a member is ended when its host's owner says, also by a process that has found it running.
func TestTheOwnersTimeIsNotPutOffByARestart(t *testing.T) {
	inLab(t, func(l *lab) {
		l.guard.until = time.Now().Add(time.Minute)
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(5 * time.Second)
		l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
		l.beat(5 * time.Second)
		l.restart()
		l.shows(1, task.HostedMember{State: task.Started, Start: true})
		l.beat(45 * time.Second)
		l.wantSaid("prepared", "started")
		l.beat(10 * time.Second)
		l.wantSaid("prepared", "started", "exited -1 the owner has had enough cleaned")
	})
}

// TestAPreparationThatDoesNotEndIsEnded holds that one whose executor hangs ends at its limit, and says which one that is.
func TestAPreparationThatDoesNotEndIsEnded(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends()
		l.kind.Limit, l.world.prepares = time.Minute, time.Hour
		l.start()
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(58 * time.Second)
		l.wantSaid("asked")
		l.beat(10 * time.Second)
		l.wantSaid("asked", "exited -1 it was not done on its host within 1m0s, as --prepare-timeout says there: context deadline exceeded cleaned")
	})
}

func TestExpiredAssignmentIsNotBegun(t *testing.T) {
	inLab(t, func(l *lab) {
		l.shows(1, task.HostedMember{State: task.Placed}, func(h *task.Hosted) { h.ExpiresMS = time.Now().UnixMilli() })
		l.beat(5 * time.Second)
		l.wantSaid("refused 0 it expired before this host began it cleaned")
	})
}

func TestMemberThatVanishesAndOneThatCantBeSeen(t *testing.T) {
	inLab(t, func(l *lab) {
		l.left(work.Status{State: task.Ready})
		l.shows(1, task.HostedMember{State: task.Ready, Start: true})
		l.beat(5 * time.Second)
		l.world.fail("find", errors.New("no engine"))
		l.beat(4 * time.Minute)
		l.wantSaid("ready")
		l.world.fail("find", nil)
		l.beat(5 * time.Second)
		l.world.fail("find", errors.New("no engine"))
		l.beat(6 * time.Minute)
		l.wantSaid("ready", "exited -1 its host could not see for 5m0s what runs: no engine cleaned")
	})
	inLab(t, func(l *lab) {
		l.left(work.Status{State: task.Ready})
		l.shows(1, task.HostedMember{State: task.Ready, Start: true})
		l.beat(5 * time.Second)
		l.world.vanish()
		l.beat(5 * time.Second)
		l.wantSaid("ready", "exited -1 it is gone: nothing of it is on its host any more cleaned")
	})
}

// TestReportsTakeAFormThatTheStateTakes holds what would keep an assignment from its end: a state that is not legal any more.
func TestReportsTakeAFormThatTheStateTakes(t *testing.T) {
	inLab(t, func(l *lab) { // it succeeded, and its verdict came first
		l.world.result = work.Status{State: task.Exited}
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(5 * time.Second)
		l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
		l.beat(5 * time.Second)
		l.shows(1, task.HostedMember{State: task.Prepared, Stop: true})
		l.beat(5 * time.Second)
		l.wantSaid("prepared", "exited cleaned", "stopped cleaned")
	})
	inLab(t, func(l *lab) { // the owner has changed their mind, and the host was restarted
		l.guard.say(work.Answer{Why: "no more"})
		l.shows(1, task.HostedMember{State: task.Prepared})
		l.beat(5 * time.Second)
		l.wantSaid("exited -1 no more cleaned")
	})
}
