// Package board is the leader's memory of a probe that an operator asks for: who probes whom, what was found, and how often one begins. It
// knows no network; internal/probe does.
package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/text"
)

// ErrBusy is why no probe begins now.
var ErrBusy = errors.New("a probe has begun less than a minute ago")

// ErrTooLarge reports a swarm of so many nodes, or pairs of them, that it is not probed.
var ErrTooLarge = errors.New("too many nodes to probe")

const (
	// Every is the least time between the beginnings of two probes.
	Every = time.Minute
	// MaxSeconds bounds a probe of a whole swarm.
	MaxSeconds = 90
	// MaxTargets bounds what one node probes, and who may probe it.
	MaxTargets = 256
	// MaxVersion bounds what a node says of its version, and MaxProblem what it says of a link, in bytes.
	MaxVersion = 64
	// MaxProblem is at MaxVersion.
	MaxProblem = 512
	// maxLinks bounds what a board holds.
	maxLinks = 4096
)

// Board is the leader's memory of the last probe. Nothing of it is replicated: with another leader it is gone. Safe for concurrent use.
type Board struct {
	now  func() time.Time
	wake chan struct{} // has a value when there are SNs to tell

	mu    sync.Mutex
	run   uint64
	begun time.Time
	until time.Time
	jobs  map[string]*swarmv1.ProbeJob // by node
	sns   []*state.Node                // who are told by a stream
	shown *swarmv1.GetProbeResponse
	index map[link]*swarmv1.ProbeLink
}

type link struct{ from, to string }

// New makes a board; now may be nil, the real clock.
func New(now func() time.Time) *Board {
	if now == nil {
		now = time.Now
	}
	return &Board{now: now, wake: make(chan struct{}, 1)}
}

// Start begins a probe of the nodes that are live, and returns its number. Errors are ErrBusy and ErrTooLarge.
func (b *Board) Start(view *state.State) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if wait := b.begun.Add(Every).Sub(now); b.run != 0 && (wait > 0 || !b.overLocked(now)) {
		wait = max(wait, time.Second).Round(time.Second)
		return 0, fmt.Errorf("%w: the next may begin in %s", ErrBusy, wait)
	}
	sls, sns := live(view, naming.RoleSL), live(view, naming.RoleSN)
	if links := len(sls)*(len(sls)-1+len(sns)) + len(sns)*(len(sns)-1); links > maxLinks || len(sls)+len(sns) > MaxTargets {
		return 0, fmt.Errorf("%w: %d, which have %d links", ErrTooLarge, len(sls)+len(sns), links)
	}
	b.run = max(b.run+1, uint64(now.UnixMilli())) //nolint:gosec // after 1970; another leader's has another number
	b.begun, b.sns, b.jobs, b.index = now, sns, map[string]*swarmv1.ProbeJob{}, map[link]*swarmv1.ProbeLink{}
	b.shown = &swarmv1.GetProbeResponse{Run: b.run, StartedUnixMs: now.UnixMilli()}
	seconds := uint32(min(MaxSeconds, 20+3*max(len(sls), len(sns)))) //nolint:gosec // small
	b.until = now.Add(time.Duration(seconds) * time.Second)
	for i := range sns {
		b.add(sns[i], seconds, nil, around(sns, i))
	}
	for i := range sls {
		b.add(sls[i], seconds, sns, around(sls, i))
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return b.run, nil
}

// live are the nodes of a role that are there and not banned. SNs are known to be there by the group itself.
func live(view *state.State, role string) []*state.Node {
	return slices.DeleteFunc(slices.Clone(view.NodesByRole(role)), func(n *state.Node) bool {
		return view.Banned(n.PeerID) != nil || n.Left() || role != naming.RoleSN && !n.Live
	})
}

// around are the others, beginning with the next: so that not all begin with the same one.
func around(nodes []*state.Node, i int) []*state.Node {
	return slices.Concat(nodes[i+1:], nodes[:i])
}

// add gives a node its job: APIs first, then peers, who may probe it, too.
func (b *Board) add(n *state.Node, seconds uint32, apis, peers []*state.Node) {
	job := &swarmv1.ProbeJob{Run: b.run, Seconds: seconds}
	for _, t := range apis {
		job.Targets = append(job.Targets, target(t, true))
	}
	for _, t := range peers {
		job.Targets = append(job.Targets, target(t, false))
		job.FromPeerIds = append(job.FromPeerIds, t.PeerID)
	}
	b.jobs[n.Name] = job
	b.shown.Nodes = append(b.shown.Nodes, &swarmv1.ProbeNode{Name: n.Name, Role: n.Role})
	for _, t := range job.GetTargets() {
		l := &swarmv1.ProbeLink{From: n.Name, To: t.GetNode(), Address: HostPort(t), Api: t.GetApi()}
		b.shown.Links = append(b.shown.Links, l)
		b.index[link{n.Name, t.GetNode()}] = l
	}
}

func target(n *state.Node, api bool) *swarmv1.ProbeTarget {
	t := &swarmv1.ProbeTarget{Node: n.Name, Role: n.Role, SpiffeId: n.SPIFFEID, PeerId: n.PeerID, Host: n.Host, Port: uint32(n.FSPort), Api: api}
	switch {
	case api && n.APIService != "": // SNs register it as HOST:PORT
		host, port, _ := net.SplitHostPort(n.APIService)
		number, _ := strconv.ParseUint(port, 10, 16)
		t.Host, t.Port = host, uint32(number)
	case api:
		t.Port = uint32(n.APIPort)
	case n.Role == naming.RoleSN:
		t.Port = uint32(n.P2PPort)
	}
	return t
}

// KnownSNs is probe.Config's Known of an SN: which of the targets are SNs' ports for others as its own copy of the state has them.
func KnownSNs(view *state.State, targets []*swarmv1.ProbeTarget) []bool {
	known := make([]bool, len(targets))
	for i, t := range targets {
		known[i] = slices.ContainsFunc(view.NodesByRole(naming.RoleSN), func(n *state.Node) bool {
			own := target(n, false)
			return !t.GetApi() && own.GetPeerId() == t.GetPeerId() && HostPort(own) == HostPort(t)
		})
	}
	return known
}

// HostPort is where a target is dialled.
func HostPort(t *swarmv1.ProbeTarget) string {
	return net.JoinHostPort(t.GetHost(), strconv.FormatUint(uint64(t.GetPort()), 10))
}

// Tell fills in what a node is told in answer to a report of what it has found.
func (b *Board) Tell(node string, report *swarmv1.ProbeReport, res *swarmv1.ReportResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run == 0 || b.overLocked(b.now()) {
		return
	}
	job := b.jobs[node]
	if job == nil {
		return
	}
	res.ProbeRun = b.run
	if report.GetRun() != b.run {
		left := max(b.until.Sub(b.now()), time.Second)
		job = proto.CloneOf(job)
		job.Seconds = uint32(min(left/time.Second, MaxSeconds)) //nolint:gosec // bounded
		res.Probe = job
	}
}

// ReportFits reports whether a report can be one.
func ReportFits(r *swarmv1.ProbeReport) bool {
	return len(r.GetResults()) <= MaxTargets && len(r.GetVersion()) <= MaxVersion &&
		!slices.ContainsFunc(r.GetResults(), func(x *swarmv1.ProbeResult) bool {
			return len(x.GetNode()) > 128 || len(x.GetProblem()) > 2*MaxProblem || len(x.GetUnmeasured()) > 2*MaxProblem
		})
}

// Take takes what a node has found, made fit to show. What it was not asked for counts nothing.
func (b *Board) Take(node string, report *swarmv1.ProbeReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if report == nil || report.GetRun() != b.run || b.jobs[node] == nil || b.now().After(b.until) {
		return
	}
	b.nodeLocked(node).Version = text.Printable(cmp.Or(report.GetVersion(), "unknown"), ' ')
	for _, r := range report.GetResults() {
		l := b.index[link{node, r.GetNode()}]
		if l == nil || l.Result != nil {
			continue
		}
		l.Result = &swarmv1.ProbeResult{
			Node: r.GetNode(), Problem: text.Clip(text.Line(r.GetProblem()), MaxProblem), RoundTripUs: max(r.GetRoundTripUs(), 0),
			ClockKnown: r.GetClockKnown(), ClockUs: r.GetClockUs(), BytesPerSecond: max(r.GetBytesPerSecond(), 0),
			Unmeasured: text.Clip(text.Line(r.GetUnmeasured()), MaxProblem),
		}
	}
}

func (b *Board) nodeLocked(name string) *swarmv1.ProbeNode {
	i := slices.IndexFunc(b.shown.GetNodes(), func(n *swarmv1.ProbeNode) bool { return n.GetName() == name })
	return b.shown.GetNodes()[i]
}

// failed notes why an SN could not be told of a probe, unless another one has begun since.
func (b *Board) failed(run uint64, name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run == run {
		b.nodeLocked(name).Problem = text.Clip(text.Line(err.Error()), MaxProblem)
	}
}

// overLocked reports whether all have said what they found, or the time is over.
func (b *Board) overLocked(now time.Time) bool {
	return now.After(b.until) || !slices.ContainsFunc(b.shown.GetLinks(), func(l *swarmv1.ProbeLink) bool {
		return l.Result == nil && b.nodeLocked(l.GetFrom()).GetProblem() == ""
	})
}

// Show is what was found so far.
func (b *Board) Show() *swarmv1.GetProbeResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run == 0 {
		return &swarmv1.GetProbeResponse{Over: true}
	}
	out := proto.CloneOf(b.shown)
	out.Over = b.overLocked(b.now())
	return out
}

// Run tells SNs of probes until ctx ends, and returns nil. order has one carry its job out, as far as it can be reached.
func (b *Board) Run(ctx context.Context, order func(ctx context.Context, sn *state.Node, job *swarmv1.ProbeJob) (*swarmv1.ProbeReport, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
		}
		b.mu.Lock()
		run, sns, jobs, until := b.run, b.sns, b.jobs, b.until
		b.mu.Unlock()
		within, cancel := context.WithTimeout(ctx, until.Sub(b.now()))
		var told sync.WaitGroup
		for _, sn := range sns {
			told.Go(func() {
				report, err := order(within, sn, jobs[sn.Name])
				if err != nil {
					b.failed(run, sn.Name, err)
					return
				}
				b.Take(sn.Name, report)
			})
		}
		told.Wait()
		cancel()
	}
}
