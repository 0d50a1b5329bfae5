package work

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/assign"
	"github.com/swarmd/swarmd/consensus/task"
)

// Config is what a Host works with.
type Config struct {
	SwarmID string
	Node    string // the host's name in the swarm
	Swarm   Swarm
	Tasks   Tasks
	Guard   Guard
	Types   map[string]Type // by the type of tasks
	// World asks where all members of an epoch of an assignment are, for types whose executor wants to know. It fails while it can't say that of
	// this epoch.
	World func(ctx context.Context, assignment string, epoch uint32) ([]task.Site, error)
	Log   *slog.Logger
}

// Host carries out the assignments of one host. All methods are safe for concurrent use.
type Host struct {
	cfg     Config
	done    chan func() // what follows from the end of a worker
	workers sync.WaitGroup

	mu      sync.Mutex
	heard   time.Time
	reports []assign.MemberReport
	news    chan struct{} // closed and replaced when reports change

	// The rest is the loop's.
	known   bool // the swarm has said what it wants of this host
	members map[Label]*member
	sights  map[string]*sight // by type
	worlds  map[epoch][]task.Site
	count   int       // counts the ends of workers
	leased  time.Time // what was heard when it was told last until when members may run
}

// New returns a host that does nothing until Run.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg, news: make(chan struct{}), done: make(chan func()), members: map[Label]*member{}, sights: map[string]*sight{}, worlds: map[epoch][]task.Site{}}
	for name, t := range cfg.Types {
		if t.Executor != nil {
			h.sights[name] = &sight{}
		}
	}
	return h
}

// Heard says that a leader of the swarm answered a heartbeat, and when that was sent: the lease of all members runs from then.
func (h *Host) Heard(sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sent.After(h.heard) {
		h.heard = sent
	}
}

// Report returns what has become of the host's members. It is to be told with each heartbeat.
func (h *Host) Report() []assign.MemberReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.reports)
}

// News returns a channel that is closed at the next change of Report.
func (h *Host) News() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.news
}

// Run carries out assignments until ctx ends; it returns nil then. What runs goes on: the next Run adopts it. The first lease begins now.
func (h *Host) Run(ctx context.Context) error {
	h.Heard(time.Now())
	ctx, cancel := context.WithCancel(ctx)
	defer h.workers.Wait()
	defer cancel()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		changed := h.cfg.Swarm.Changed()
		h.step(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		case <-changed:
		case then := <-h.done:
			then()
		}
	}
}

// step does for each member what is to be done next.
func (h *Host) step(ctx context.Context, now time.Time) {
	all, known := h.cfg.Swarm.Hosted()
	h.known = h.known || known
	h.compare(all, now)
	h.look(ctx, now)
	for _, m := range h.members {
		h.act(ctx, m, now)
	}
	h.publish(all)
	prolong(h)
}

// prolong tells until when members may run, whenever a leader has answered.
func prolong(h *Host) {
	h.mu.Lock()
	heard := h.heard
	h.mu.Unlock()
	if len(h.members) == 0 || !heard.After(h.leased) {
		return
	}
	h.leased = heard
	for kind, t := range h.cfg.Types {
		if t.Lease == nil {
			continue
		}
		if err := t.Lease(heard.Add(lease)); err != nil {
			h.cfg.Log.Warn("can't note until when members of assignments may run: they end by themselves", "task_type", kind, "err", err)
		}
	}
}

// compare holds what is committed against the members that are known.
func (h *Host) compare(all []task.Hosted, now time.Time) {
	for _, m := range h.members {
		m.want = nil
	}
	for _, a := range all {
		for _, want := range a.Members {
			m := h.member(h.label(a, want), now)
			if n := len(a.Approvals); n > 0 && (len(m.hosted.Approvals) == 0 || m.hosted.Approvals[len(m.hosted.Approvals)-1].Number != a.Approvals[n-1].Number) {
				m.due.next = now // the guard is asked at once: other words may take the place of this one
			}
			m.hosted, m.want = a, &want
		}
	}
	maps.DeleteFunc(h.members, func(_ Label, m *member) bool { return m.want == nil && m.cleaned && m.worker == nil })
	maps.DeleteFunc(h.worlds, func(e epoch, _ []task.Site) bool { return !hasPart(h, e) })
}

func (h *Host) label(a task.Hosted, m task.HostedMember) Label {
	return Label{Swarm: h.cfg.SwarmID, Node: h.cfg.Node, Assignment: a.ID, Epoch: a.Epoch, Member: m.Index}
}

// member returns the one of a label, which is made if there was none.
func (h *Host) member(l Label, now time.Time) *member {
	if h.members[l] == nil {
		h.members[l] = &member{label: l, due: pace{began: now}}
	}
	return h.members[l]
}

// publish makes the report.
func (h *Host) publish(all []task.Hosted) {
	var reports []assign.MemberReport
	for _, a := range all {
		for _, want := range a.Members {
			if m := h.members[h.label(a, want)]; m != nil && m.state != "" {
				reports = append(reports, assign.MemberReport{Assignment: a.ID, Epoch: a.Epoch, Group: want.Group, Peers: want.Peers, Report: m.report()})
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.reports, reports) {
		close(h.news)
		h.news = make(chan struct{})
	}
	h.reports = reports
}

// leaseOver reports whether no leader has answered for too long.
func (h *Host) leaseOver(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.heard) >= lease
}

// work has a worker do something for a member, beside the loop. What do returns is called by the loop when the worker has ended, unless Run
// ends before. limit bounds it; 0: nothing does.
func (h *Host) work(ctx context.Context, m *member, limit time.Duration, do func(ctx context.Context) (then func(now time.Time))) {
	w := &worker{}
	var own context.Context
	if own, w.cancel = context.WithCancel(ctx); limit > 0 {
		own, w.cancel = context.WithTimeout(ctx, limit)
	}
	m.worker = w
	h.workers.Go(func() {
		defer w.cancel()
		then := do(own)
		select {
		case <-ctx.Done():
		case h.done <- func() {
			h.count++
			m.worker, m.due.since = nil, h.count
			then(time.Now())
		}:
		}
	})
}
