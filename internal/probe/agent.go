package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/handshake"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/probe/board"
	"github.com/swarmd/swarmd/internal/text"
)

// Config is what an Agent needs.
type Config struct {
	Network p2p.Network
	// Source and Domains are the node's identity and whom it accepts, for the APIs of SNs.
	Source  identity.Provider
	Domains identity.Domains
	Version string
	// Role is the node's own, with whose nodes alone it measures; empty: with any.
	Role identity.Role
	// Busy says why nothing is to be measured now, as while a merge is under way; empty: it may be. It is asked while something is measured, too. Nil: it
	// always may.
	Busy func() string
	// Known reports of each of the targets whether this node itself knows that it is there, whatever the leader says: others are not dialled. It may
	// block until ctx ends. Nil: the leader is believed.
	Known func(ctx context.Context, targets []*swarmv1.ProbeTarget) []bool
	// Allow says why a node of this SPIFFE ID is neither answered nor measured, nil if it is. Nil: all are that the leader names.
	Allow func(spiffeID string) error
	Now   func() time.Time // nil: the real clock
	Log   *slog.Logger
}

// Agent probes for its node, and answers others who probe it. Safe for concurrent use.
type Agent struct {
	cfg  Config
	wake chan struct{} // has a value when there is a new job

	mu      sync.Mutex
	job     *swarmv1.ProbeJob // nil: none was taken
	begun   time.Time         // when it was
	until   time.Time         // after which nobody is answered
	results []*swarmv1.ProbeResult
	busy    bool                 // a peer is being answered
	served  map[string]time.Time // by peer ID, in this job
}

// New makes an agent. Call Serve, and Run.
func New(cfg Config) *Agent {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Known == nil {
		cfg.Known = func(_ context.Context, targets []*swarmv1.ProbeTarget) []bool {
			return slices.Repeat([]bool{true}, len(targets))
		}
	}
	if cfg.Busy == nil {
		cfg.Busy = func() string { return "" }
	}
	return &Agent{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Serve begins to answer probes of nodes.
func (a *Agent) Serve() {
	a.cfg.Network.Handle(Protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSN, identity.RoleSL}}, func(_ context.Context, s p2p.Conn) {
		if err := a.answer(s); err != nil {
			a.cfg.Log.Debug("probe ended", "peer", s.Peer().String(), "err", err)
			_ = s.Reset()
			return
		}
		_ = s.Close()
	})
}

func (a *Agent) answer(s p2p.Conn) error {
	_ = s.SetDeadline(time.Now().Add(peerTimeout))
	var kind [1]byte
	if _, err := s.Read(kind[:]); err != nil {
		return err
	}
	from := s.Peer().ID.String()
	if a.cfg.Allow != nil {
		if err := a.cfg.Allow(s.Peer().Identity.String()); err != nil {
			return (&refusal{statusNo, err.Error()}).write(s)
		}
	}
	if no := a.enter(from); no != nil {
		return no.write(s)
	}
	defer a.leave(from)
	return answer(s, kind[0], a.cfg.Busy, a.cfg.Now)
}

// enter lets a peer in, or says why not.
func (a *Agent) enter(from string) *refusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	switch {
	case a.job == nil || now.After(a.until):
		return &refusal{statusBusy, "no probe goes on here that it knows of"}
	case !slices.Contains(a.job.GetFromPeerIds(), from):
		return &refusal{statusNo, "the leader names no such node in this probe"}
	case a.busy:
		return &refusal{statusBusy, "it answers another probe"}
	}
	if at, ok := a.served[from]; ok && now.Sub(at) < servedAgain {
		return &refusal{statusNo, "it has answered this node a moment ago"}
	}
	a.busy = true
	a.served[from] = now
	return nil
}

func (a *Agent) leave(from string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = false
	if _, ok := a.served[from]; ok {
		a.served[from] = a.cfg.Now()
	}
}

// Take takes what the answer to a heartbeat says of the probe that goes on.
func (a *Agent) Take(job *swarmv1.ProbeJob) {
	if job == nil || !a.begin(job) {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// begin takes a job unless it has it, or had another one less than a minute ago: whoever leads must not load this host.
func (a *Agent) begin(job *swarmv1.ProbeJob) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	if a.job != nil && (a.job.GetRun() == job.GetRun() || now.Sub(a.begun) < board.Every-busyWait) {
		return false
	}
	job = proto.CloneOf(job)
	job.Targets, job.FromPeerIds = a.wanted(job.Targets), job.FromPeerIds[:min(len(job.FromPeerIds), board.MaxTargets)]
	a.job, a.begun, a.results, a.served = job, now, nil, map[string]time.Time{}
	a.until = now.Add(time.Duration(min(job.GetSeconds(), board.MaxSeconds)) * time.Second)
	return true
}

// wanted leaves out what no honest leader asks for: a node twice, and ports of nodes of another role, to which models would be measured.
func (a *Agent) wanted(targets []*swarmv1.ProbeTarget) []*swarmv1.ProbeTarget {
	seen := map[string]bool{}
	return slices.DeleteFunc(targets[:min(len(targets), board.MaxTargets)], func(t *swarmv1.ProbeTarget) bool {
		twice := seen[t.GetPeerId()]
		seen[t.GetPeerId()] = true
		return twice || !t.GetApi() && t.GetRole() != string(cmp.Or(a.cfg.Role, identity.Role(t.GetRole())))
	})
}

// Report is what was found in the last probe so far; nil: there was none, or it is over.
func (a *Agent) Report() *swarmv1.ProbeReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.job == nil || a.cfg.Now().After(a.until) {
		return nil
	}
	return &swarmv1.ProbeReport{Run: a.job.GetRun(), Version: text.Cut(a.cfg.Version, board.MaxVersion), Results: slices.Clone(a.results)}
}

// Run probes until ctx ends, whenever there is a job, and returns nil.
func (a *Agent) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
			a.work(ctx)
		}
	}
}

// Do takes a job and carries it out: for an SN, which sends no heartbeats. It blocks until the job is done or its time is over.
func (a *Agent) Do(ctx context.Context, job *swarmv1.ProbeJob) (*swarmv1.ProbeReport, error) {
	if !a.begin(job) {
		return nil, errors.New("it has begun another probe less than a minute ago")
	}
	a.work(ctx)
	return a.Report(), nil
}

// work probes the targets one after the other.
func (a *Agent) work(ctx context.Context) {
	a.mu.Lock()
	job, until := a.job, a.until
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, until.Sub(a.cfg.Now()))
	defer cancel()
	known := a.cfg.Known(ctx, job.GetTargets())
	for i, t := range job.GetTargets() {
		r := a.probe(ctx, t, known[i])
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		if a.job == job {
			a.results = append(a.results, r)
		}
		a.mu.Unlock()
	}
}

// probe probes one target, if it is known.
func (a *Agent) probe(ctx context.Context, t *swarmv1.ProbeTarget, known bool) *swarmv1.ProbeResult {
	r := &swarmv1.ProbeResult{Node: t.GetNode()}
	var err error
	if a.cfg.Allow != nil && !t.GetApi() {
		err = a.cfg.Allow(t.GetSpiffeId())
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", doctor.NotDialled, err)
	case !known:
		err = errors.New(doctor.NotKnown)
	case t.GetApi():
		err = a.api(ctx, t, r)
	default:
		err = a.peer(ctx, t, r)
	}
	if err != nil {
		r.Problem = text.Clip(text.Line(err.Error()), board.MaxProblem)
	}
	return r
}

// api looks at an SN's API as a client of it. Nothing is measured: models do not go through SNs.
func (a *Agent) api(ctx context.Context, t *swarmv1.ProbeTarget, r *swarmv1.ProbeResult) error {
	c := handshake.New(handshake.Config{Source: a.cfg.Source, Domains: a.cfg.Domains, Now: a.cfg.Now})
	res := c.Run(ctx, board.HostPort(t), a.cfg.Source.Status())
	r.RoundTripUs = c.RoundTrip().Microseconds()
	if ahead, ok := c.Offset(); ok {
		r.ClockKnown, r.ClockUs = true, ahead.Microseconds()
	}
	r.Unmeasured = "models do not go through SNs"
	if step, bad := res.Failed(); bad && step.Step != "health" {
		return errors.New(step.Detail)
	}
	return nil
}

// peer looks at a port for other nodes: first whether a new connection to it succeeds, whatever others there are.
func (a *Agent) peer(ctx context.Context, t *swarmv1.ProbeTarget, r *swarmv1.ProbeResult) error {
	role := identity.Role(t.GetRole())
	id, err := peer.Decode(t.GetPeerId())
	if err != nil {
		return err
	}
	who, err := a.cfg.Network.Contact(ctx, board.HostPort(t), role)
	if err == nil && who.ID != id {
		err = fmt.Errorf("another node answers there: %s, with peer ID %s", who.Identity, who.ID)
	}
	if err != nil {
		return err
	}
	at := p2p.Addr{PeerID: id, Host: t.GetHost(), Port: int(t.GetPort())}
	for range busyTries {
		f, err := a.stream(ctx, at, role)
		if no, ok := errors.AsType[*refusal](err); ok && no.status == statusBusy {
			if pause.For(ctx, busyWait) != nil {
				return ctx.Err()
			}
			continue
		}
		if err != nil {
			f.why = text.Clip(text.Line(err.Error()), board.MaxProblem) // it is reached all the same
		}
		if f.looked {
			r.RoundTripUs, r.ClockKnown, r.ClockUs = f.trip.Microseconds(), true, f.ahead.Microseconds()
		}
		r.BytesPerSecond, r.Unmeasured = f.rate, f.why
		return nil
	}
	r.Unmeasured = "it was busy with other probes, or knows of none"
	return nil
}

// stream probes on a stream of its own, of the kind that carries models where that is to be measured.
func (a *Agent) stream(ctx context.Context, at p2p.Addr, role identity.Role) (found, error) {
	busy := a.cfg.Busy()
	s, err := a.cfg.Network.Dial(ctx, at, Protocol, busy == "", func(p p2p.Peer) error {
		if err := p.Is(role); err != nil || a.cfg.Allow == nil {
			return err
		}
		return a.cfg.Allow(p.Identity.String())
	})
	if err != nil {
		return found{}, err
	}
	_ = s.SetDeadline(time.Now().Add(peerTimeout))
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
	f, err := examine(s, busy == "", a.cfg.Busy, a.cfg.Now)
	if busy != "" {
		f.why = busy
	}
	if err != nil || f.stopped {
		_ = s.Reset()
		return f, err
	}
	return f, s.Close()
}
