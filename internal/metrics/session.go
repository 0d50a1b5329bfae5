package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
)

// How an attempt went.
const (
	attemptDone       = "done"
	attemptFailed     = "failed"
	attemptSuperseded = "superseded" // another one took its place, or the node was stopped
)

// Why an attempt failed, as this SL sees it.
const (
	causeUnreached = "unreached" // no connection to a peer could be opened
	causePeer      = "peer"      // a peer was silent, broke off, or sent what does not hold
	causeTold      = "told"      // another peer said that it could not go on
	causeLocal     = "local"     // this node's own disk, memory or model
	causeUnknown   = "unknown"   // nobody is named
)

// phasesOfSessions are those that [session.Engine.Status] tells.
var phasesOfSessions = []string{"idle", "training", "ready", "merging", "closed", "finished"}

// sessions measures those of an SL's program.
type sessions struct {
	self     string
	rounds   *rounds
	attempts *prometheus.CounterVec
	failures *prometheus.CounterVec
}

// ofSessions returns what measures those of this node; there is one.
func (s *Server) ofSessions() *sessions {
	if s.session != nil {
		return s.session
	}
	m := &sessions{
		self: s.cfg.Name, rounds: newRounds(),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swarmd_attempts_total", Help: "Attempts of rounds that this node took part in, by how they went.",
		}, []string{"outcome"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swarmd_attempt_failures_total", Help: "Attempts that failed at this node, by cause.",
		}, []string{"cause"}),
	}
	for _, outcome := range []string{attemptDone, attemptFailed, attemptSuperseded} {
		m.attempts.WithLabelValues(outcome)
	}
	for _, cause := range []string{causeUnreached, causePeer, causeTold, causeLocal, causeUnknown} {
		m.failures.WithLabelValues(cause)
	}
	s.session = m
	s.register(m.rounds.phases, m.rounds.models, m.attempts, m.failures)
	return m
}

// Exchange measures the attempts that an exchange carries out.
func (s *Server) Exchange(x session.Exchange) session.Exchange {
	if s == nil {
		return x
	}
	return exchange{x, s.ofSessions()}
}

type exchange struct {
	session.Exchange
	m *sessions
}

// Merge implements session.Exchange.
func (x exchange) Merge(ctx context.Context, job session.Job) (*round.Done, *round.Failed) {
	begun := time.Now()
	done, failed := x.Exchange.Merge(ctx, job)
	switch {
	case done != nil:
		x.m.attempts.WithLabelValues(attemptDone).Inc()
		x.m.rounds.merged(span{begun, time.Now()})
	case failed != nil:
		x.m.attempts.WithLabelValues(attemptFailed).Inc()
		x.m.failures.WithLabelValues(causeOf(failed, x.m.self)).Inc()
	default:
		x.m.attempts.WithLabelValues(attemptSuperseded).Inc()
	}
	return done, failed
}

// causeOf sorts a failure.
func causeOf(f *round.Failed, self string) string {
	switch {
	case f.Blamed == self:
		return causeLocal
	case f.Blamed == "":
		return causeUnknown
	case f.HeardFrom != "":
		return causeTold
	case f.Unreached != nil:
		return causeUnreached
	}
	return causePeer
}

// Engine is what keeps an SL's session.
type Engine interface {
	Status() map[string]any
	View() *round.View
}

// Program measures how long the program's calls wait, and tells of its session.
func (s *Server) Program(h bridge.Handler, e Engine) bridge.Handler {
	if s == nil {
		return h
	}
	s.engine(e)
	return program{h, s.ofSessions().rounds}
}

// engine tells of the session as of now.
func (s *Server) engine(e Engine) {
	s.cfg.Traffic.namedBy(func(peerID string) string {
		for _, m := range e.View().Sessions {
			if m.PeerID == peerID {
				return m.Node
			}
		}
		return ""
	})
	phase := desc("session_phase", "1: the phase that the node's session is in; idle: there is none.", "phase")
	bytes := desc("merge_bytes_total", "Bytes of merge streams in attempts that were complete.", "direction")
	model := desc("model_size_bytes", "Size of the session's model; absent while there is none.")
	s.register(described{[]*prometheus.Desc{phase, bytes, model}, func(to chan<- prometheus.Metric) {
		st := e.Status()
		for _, p := range phasesOfSessions {
			gauge(to, phase, truth(st["phase"] == p), p)
		}
		for direction, key := range map[string]string{sent: "merge_sent_bytes", received: "merge_received_bytes"} {
			if n, ok := st[key].(uint64); ok {
				counter(to, bytes, float64(n), direction)
			}
		}
		if n, ok := st["model_bytes"].(int64); ok {
			gauge(to, model, float64(n))
		}
	}})
}

type program struct {
	bridge.Handler
	rounds *rounds
}

// Sync implements bridge.Handler.
func (p program) Sync(ctx context.Context, req wire.SyncRequest) (wire.SyncResponse, error) {
	c := call{req.Session, req.Seq, false}
	p.rounds.begin(c, time.Now())
	r, err := p.Handler.Sync(ctx, req)
	p.answer(c, r, err)
	return r, err
}

// Close implements bridge.Handler.
func (p program) Close(ctx context.Context, req wire.CloseRequest) (wire.SyncResponse, error) {
	c := call{req.Session, req.Seq, true}
	p.rounds.begin(c, time.Now())
	r, err := p.Handler.Close(ctx, req)
	p.answer(c, r, err)
	return r, err
}

func (p program) answer(c call, r wire.SyncResponse, err error) {
	if err == nil && !r.Pending {
		p.rounds.end(c, time.Now(), r.Contributed, c.closes || r.TrainingOver)
	}
}
