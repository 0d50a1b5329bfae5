package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/metrics"
	"github.com/swarmd/swarmd/internal/swci/report"
)

const (
	pollEvery   = 400 * time.Millisecond
	pollTimeout = 2 * time.Second
	// A wait shorter than this is normal between rounds and not worth a line of its own.
	longWait = 5 * time.Second
	// Where lines can't be kept up to date in place, one says this often that a program has still not begun.
	stillEvery = time.Minute
)

// What a peer does as far as its program has not said it.
const (
	phaseQueued   = "waits for a processor"
	phaseStarting = "starting"
	phaseTraining = "training"
	phaseFinished = "finished"
)

// progress follows a run: the peers' metrics files and the contract's status, if there is a swarm.
type progress struct {
	cfg     *RunConfig
	host    Host
	board   *Board
	api     API // nil: every peer trains alone
	started time.Time

	hopeless chan error // takes one: why no round will ever be merged

	mu     sync.Mutex
	peers  []peerState
	status *swarmv1.GetContractStatusResponse // the newest; nil before the first
}

type peerState struct {
	tail        metrics.Tail
	round       int64
	epoch       int64
	totalEpochs int64
	loss        *float64
	metric      *float64
	metricName  string
	merged      bool // loss and metric are a merged model's
	phase       string
	since       time.Time // when it began to start
	ended       string    // why, once the process is gone
	sent        int64     // bytes, in merges
	received    int64
}

func newProgress(cfg *RunConfig, h Host, board *Board, api API) *progress {
	p := &progress{cfg: cfg, host: h, board: board, api: api, started: h.Now(), peers: make([]peerState, cfg.Peers), hopeless: make(chan error, 1)}
	for i := range p.peers {
		p.peers[i] = peerState{phase: phaseStarting, since: p.started}
		p.peers[i].tail.Path = cfg.metricsPath(i, api == nil)
	}
	return p
}

// follow shows the run until the function that it returns is called, which takes a last look.
func (p *progress) follow(ctx context.Context) (stop func()) {
	following, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(following)
	}()
	return func() {
		cancel()
		<-done
		p.poll(context.WithoutCancel(ctx)) // the swarm still lives, also when the run is being stopped
	}
}

// contract is the name of the contract that the programs use, as far as it is known.
func (p *progress) contract() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.GetContract().GetName()
}

// traffic is what the node of the peer with index i has sent and received in merges, as it said last.
func (p *progress) traffic(i int) (sent, received int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peers[i].sent, p.peers[i].received
}

// set notes what a peer does before its program can say it.
func (p *progress) set(i int, phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peers[i].phase, p.peers[i].since = phase, p.host.Now()
}

// run polls until ctx ends.
func (p *progress) run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		p.poll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// poll reads what is new and shows it.
func (p *progress) poll(ctx context.Context) {
	status := p.ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if status != nil {
		p.status = status
		p.giveUp(p.cfg.unmet(status))
	}
	for i := range p.peers {
		events, err := p.peers[i].tail.Next()
		if err != nil {
			continue // the file is the program's: what it does with it can't stop the run
		}
		for _, e := range events {
			p.peers[i].take(e)
		}
		p.peers[i].heed(session(p.status, cluster.SLName(i)))
	}
	p.board.Set(p.lines())
}

// giveUp ends the wait for the programs, if there is an error.
func (p *progress) giveUp(err error) {
	if err == nil {
		return
	}
	select {
	case p.hopeless <- err:
	default: // it is known already
	}
}

// ask fetches the status of the contract that the programs use: of several, the one with most open sessions.
func (p *progress) ask(ctx context.Context) *swarmv1.GetContractStatusResponse {
	if p.api == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	list, err := p.api.ListContracts(ctx)
	if err != nil || len(list.GetContracts()) == 0 {
		return nil
	}
	busy := slices.MaxFunc(list.GetContracts(), func(a, b *swarmv1.ContractSummary) int {
		return int(a.GetOpenSessions()+a.GetEndedSessions()) - int(b.GetOpenSessions()+b.GetEndedSessions())
	})
	status, err := p.api.GetContractStatus(ctx, busy.GetName())
	if err != nil {
		return nil
	}
	return status
}

// session returns the newest session of a node, or nil.
func session(st *swarmv1.GetContractStatusResponse, node string) *swarmv1.Session {
	var found *swarmv1.Session
	for _, s := range st.GetContract().GetSessions() {
		if s.GetNode() == node {
			found = s
		}
	}
	return found
}

// take notes one event of the program.
func (s *peerState) take(e metrics.Event) {
	s.round = max(s.round, e.Round)
	s.epoch = max(s.epoch, e.Epoch)
	if e.Kind == metrics.Start {
		s.totalEpochs = e.TotalEpochs
	}
	// Once there are merged models, what a peer's own training makes of them between rounds would only make it jump.
	swarm := (e.Kind == metrics.Merge || e.Kind == metrics.End) && (e.Loss != nil || e.Metric != nil)
	if s.merged = s.merged || swarm; swarm || !s.merged {
		if e.Loss != nil {
			s.loss = e.Loss
		}
		if e.Metric != nil {
			s.metric = e.Metric
		}
	}
	if e.MetricName != "" {
		s.metricName = e.MetricName
	}
	switch {
	case e.Kind == metrics.End:
		s.phase = phaseFinished
	case s.phase == phaseStarting:
		s.phase = phaseTraining
	}
}

// heed notes what the swarm says of the peer's session.
func (s *peerState) heed(x *swarmv1.Session) {
	if x == nil {
		return
	}
	s.round = max(s.round, int64(x.GetLastRound()))
	s.sent = max(s.sent, int64(min(x.GetProgress().GetSentBytes(), 1<<62)))
	s.received = max(s.received, int64(min(x.GetProgress().GetReceivedBytes(), 1<<62)))
	s.epoch = max(s.epoch, int64(x.GetProgress().GetEpochsDone()))
	if s.totalEpochs == 0 {
		s.totalEpochs = int64(x.GetProgress().GetTotalEpochs())
	}
	if phase := x.GetProgress().GetPhase(); phase != "" && s.phase != phaseFinished {
		s.phase = phase
	}
}

// ended notes that a peer's process is gone.
func (p *progress) ended(i int, how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peers[i].ended = how
}

// lines renders all peers. The caller holds mu.
func (p *progress) lines() []Status {
	out := make([]Status, len(p.peers))
	long := p.status.GetWaitingSinceUnixMs() > 0 && p.host.Now().Sub(time.UnixMilli(p.status.GetWaitingSinceUnixMs())) > longWait
	for i, s := range p.peers {
		phase, elapsed := s.phase, p.host.Now().Sub(s.since)
		waiting := p.status.GetWaiting()
		if trains(waiting, cluster.SLName(i)) {
			waiting = ""
		}
		switch {
		case s.ended != "":
			phase = s.ended
		case phase == "ready" && waiting != "":
			phase = "ready; " + waiting
		case phase == phaseStarting && elapsed >= time.Second:
			phase += " for " + elapsed.Truncate(time.Second).String()
		}
		name := cluster.SLName(i)
		epoch := fmt.Sprint(s.epoch)
		if s.totalEpochs > 0 {
			epoch += fmt.Sprintf("/%d", s.totalEpochs)
		}
		text := fmt.Sprintf("%-6s round %-4d epoch %-8s loss %-8s %s %-7s %s", name, s.round, epoch, value(s.loss), cmp.Or(s.metricName, report.DefaultMetric), value(s.metric), phase)
		if p.api == nil {
			name += " alone"
			text = fmt.Sprintf("%-12s epoch %-8s loss %-8s %s %-7s %s", name, epoch, value(s.loss), cmp.Or(s.metricName, report.DefaultMetric), value(s.metric), phase)
		}
		over := s.phase == phaseFinished || s.ended != ""
		key := fmt.Sprint(s.round, " ", over, s.ended == "failed")
		if p.api == nil {
			key += fmt.Sprint(" ", s.epoch, s.phase)
		}
		if s.phase == phaseStarting {
			key += fmt.Sprint(" ", elapsed.Truncate(stillEvery))
		}
		if long && s.phase == "ready" {
			key += waiting
		}
		out[i] = Status{Peer: name, Key: key, News: over, Text: strings.TrimRight(text, " ")}
	}
	return out
}

// trains reports whether a contract's status counts the peer among those that still train. One that is ready by its own word has told its SL
// alone so far: the status is older.
func trains(waiting, peer string) bool {
	names, _, still := strings.Cut(strings.TrimPrefix(waiting, "waiting for "), " (still training)")
	return still && slices.Contains(strings.Split(names, ", "), peer)
}

func value(f *float64) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *f)
}
