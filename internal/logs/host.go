package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/text"
)

// Wanted is what of a log is asked for.
type Wanted struct {
	Assignment string // ID; empty: the node's own log
	Tail       int    // lines to begin with
	Follow     bool   // go on with those that come
	Artifacts  bool   // what members of the assignment have left, as a tar archive, in the place of a log
	Epoch      uint32 // of the artifacts; 0: the last one
	Members    []uint32
	Figures    bool // what the node's machine and its daemon have and use now, as JSON, in the place of its own log: lines are to be joined
}

// Line is one of a log.
type Line struct {
	From string // what has printed it; empty: the node itself
	Text string
	Data []byte // a piece of an archive, in the place of a line
}

// Source has the logs of a host.
type Source interface {
	// Log hands the last lines to emit, which may be called by several goroutines at a time and blocks while the operator does not keep up, and
	// with Follow those that come then. It returns nil when there is no more, or ctx has ended; an error is for the operator to read.
	Log(ctx context.Context, w Wanted, emit func(Line) error) error
}

// Config is what a Host works with.
type Config struct {
	Verifier

	Allow func(by string) error // why logs may not go to a SPIFFE ID; nil: they may
	// Rights asks the swarm why its rights keep a SPIFFE ID from a log, which no SN has judged of what is handed out directly; empty: they do
	// not. An error says that nobody could tell. Only Direct needs it.
	Rights func(ctx context.Context, by string, part *swarmv1.LogPart) (denied string, err error)
	Logs   Source
	Send   Send
	Log    *slog.Logger
}

// Send brings an SN what is sealed.
type Send func(ctx context.Context, req *swarmv1.SendLogsRequest) (*swarmv1.SendLogsResponse, error)

// Bounds of what a host does at a time, and remembers.
const (
	maxStreams = 8
	maxKnown   = 4096 // one who looks at a page with figures of the node asks 120 times while a request is known

	figuresSaid = 10 * time.Minute // the host's log says once in this time that somebody is handed out figures, or is refused them
)

// Host hands out the logs of a node. It is safe for concurrent use.
type Host struct {
	cfg   Config
	asked chan *swarmv1.LogOrder

	mu    sync.Mutex
	known map[string]time.Time // requests that were answered, by ID, and until when they could be shown again
	busy  int
	said  map[string]time.Time // of whom the host's log has said that figures go to them, and when
}

// NewHost returns a host that answers nothing until Run.
func NewHost(cfg Config) *Host {
	return &Host{cfg: cfg, asked: make(chan *swarmv1.LogOrder, maxStreams), known: map[string]time.Time{}, said: map[string]time.Time{}}
}

// Take takes what an SN says that operators ask for. It does not block: what there is no room for is shown again.
func (h *Host) Take(orders []*swarmv1.LogOrder) {
	for _, o := range orders[:min(len(orders), maxStreams)] {
		select {
		case h.asked <- o:
		default:
		}
	}
}

// Run answers until ctx ends, and returns nil.
func (h *Host) Run(ctx context.Context) error {
	var streams sync.WaitGroup
	defer streams.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-h.asked:
			if id := ID(o, h.cfg.SwarmID()); h.begins(string(id), time.Now()) {
				streams.Go(func() {
					defer h.ends()
					h.answer(ctx, id, o)
				})
			}
		}
	}
}

// begins notes a request, and reports whether it is to be answered now.
func (h *Host) begins(id string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for known, until := range h.known {
		if now.After(until) {
			delete(h.known, known)
		}
	}
	if _, known := h.known[id]; known || h.busy >= maxStreams || len(h.known) >= maxKnown {
		return false
	}
	h.known[id] = now.Add(2 * maxValid) // it has expired by then
	h.busy++
	return true
}

func (h *Host) ends() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy--
}

// answer answers one request. What can't be sealed for anybody gets no answer.
func (h *Host) answer(ctx context.Context, id []byte, o *swarmv1.LogOrder) {
	part, err := PartOf(o)
	var s *sealer
	if err == nil {
		s, err = newSealer(h.cfg.Source, id, part.GetKey())
	}
	if err != nil {
		h.cfg.Log.Warn("a request for a log can't be answered", "err", text.Line(err.Error()))
		return
	}
	out := newOutbox(h.cfg.Send, id, s)
	out.brief = part.GetFigures()
	by, err := h.cfg.verify(o, part, time.Now())
	if err == nil {
		err = h.cfg.Allow(by.String())
	}
	if err == nil && part.GetArtifacts() {
		err = errors.New("artifacts do not go through SNs: dial its file server (swarmctl get ports)")
	}
	facts := factsOf(by, part)
	if err != nil {
		out.end(h.refuses(by, part, facts, err), true)
	} else {
		h.cfg.Log.Log(ctx, h.level(slog.LevelInfo, by, part), "a log is handed out", facts...)
		defer h.read(ctx, part, out.queue)()
	}
	if err := out.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		h.cfg.Log.Log(ctx, h.level(slog.LevelInfo, by, part), "a log is not read to its end", append(facts, "err", text.Line(err.Error()))...)
	}
}

// level is that at which something is logged about a request. A page that shows a node asks for its figures again and again: of each who does,
// and of those who prove nothing together, the first request counts, and others are for who looks closer.
func (h *Host) level(l slog.Level, by identity.ID, part *swarmv1.LogPart) slog.Level {
	if !part.GetFigures() {
		return l
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now, key := time.Now(), l.String()+by.String()
	maps.DeleteFunc(h.said, func(_ string, at time.Time) bool { return now.Sub(at) >= figuresSaid })
	if _, said := h.said[key]; said || len(h.said) >= maxKnown {
		return slog.LevelDebug
	}
	h.said[key] = now
	return l
}

// factsOf are what the host's log has of a request.
func factsOf(by identity.ID, part *swarmv1.LogPart) []any {
	facts := []any{"by", text.Line(by.String()), "assignment", part.GetAssignment(), "tail", part.GetTail(), "follow", part.GetFollow(), "artifacts", part.GetArtifacts()}
	if part.GetFigures() {
		facts = append(facts, "figures", true)
	}
	return facts
}

// refuses notes why a log is not handed out, and returns what whoever asked is told.
func (h *Host) refuses(by identity.ID, part *swarmv1.LogPart, facts []any, why error) error {
	h.cfg.Log.Log(context.Background(), h.level(slog.LevelWarn, by, part), "a log is not handed out", append(facts, "err", text.Line(why.Error()))...)
	if part.GetFigures() {
		return fmt.Errorf("%s hands out no figures, which go where its log goes: %w", h.cfg.Node, why)
	}
	return fmt.Errorf("%s hands out no log: %w", h.cfg.Node, why)
}

// read has the log read into a queue, until it ends, stop is called, or nobody may follow it any longer. stop waits for that.
func (h *Host) read(ctx context.Context, part *swarmv1.LogPart, into *queue) (stop func()) {
	reading, cancel := context.WithTimeout(ctx, maxLife)
	var reader sync.WaitGroup
	reader.Go(func() {
		w := Wanted{Assignment: part.GetAssignment(), Tail: int(part.GetTail()), Follow: part.GetFollow(), Artifacts: part.GetArtifacts(), Epoch: part.GetEpoch(), Members: part.GetMembers(), Figures: part.GetFigures()}
		err := h.cfg.Logs.Log(reading, w, func(l Line) error { return into.add(reading, l) })
		if reading.Err() != nil {
			err = errLong // or nobody reads it
		}
		into.end(err, false)
	})
	return func() {
		cancel()
		reader.Wait()
	}
}
