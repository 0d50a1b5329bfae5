package runner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// explainTime bounds a question that only makes a waiting program's log nicer.
const explainTime = 2 * time.Second

// goneTime bounds telling the contract that a program has ended.
const goneTime = 30 * time.Second

// Handler gives the bridge its session engine.
type Handler struct {
	Engine *session.Engine
	Peer   string // this node's name
	Log    *slog.Logger
}

var _ bridge.Handler = Handler{}

// Open implements bridge.Handler.
func (h Handler) Open(ctx context.Context, req wire.OpenRequest, layout *merge.Layout) (bridge.OpenResult, error) {
	opened, err := h.Engine.Open(ctx, round.Open{
		Contract: req.Contract, Terms: round.Terms{MinPeers: uint32(req.MinPeers), Method: req.Method, Weights: req.Weights}, CheckinMode: req.CheckinMode, //nolint:gosec // bounded by the bridge
		SyncFrequency: uint32(req.SyncFrequency), Adaptive: req.Adaptive, Weight: uint32(req.Weight), TotalEpochs: uint32(req.TotalEpochs), //nolint:gosec // likewise
	}, layout)
	if err != nil {
		return bridge.OpenResult{}, err
	}
	return bridge.OpenResult{Session: opened.Session, Local: opened.Slots.LocalName(), Peer: h.Peer}, nil
}

// Sync implements bridge.Handler.
func (h Handler) Sync(ctx context.Context, req wire.SyncRequest) (wire.SyncResponse, error) {
	h.Engine.Count(req.Session, counts(req.Counts))
	r, err := h.Engine.Sync(ctx, req.Session, req.Seq, uint32(req.Weight)) //nolint:gosec // bounded by the bridge
	out, err := h.result(r, err)
	out.Warnings = h.Engine.Warnings(req.Session, req.Seq, false) // while the program waits too
	return out, err
}

func counts(c wire.Counts) session.Counts {
	number := func(n *int64) uint64 {
		if n == nil {
			return 0
		}
		return uint64(*n) //nolint:gosec // bounded by the bridge
	}
	return session.Counts{Known: c.Batches != nil, Batches: number(c.Batches), Samples: number(c.Samples), DataSamples: number(c.DataSamples)}
}

// Report implements bridge.Handler.
func (h Handler) Report(_ context.Context, req wire.ReportRequest) error {
	p := round.Progress{Round: req.Round, EpochsDone: uint32(req.EpochsDone), TotalEpochs: uint32(req.TotalEpochs)} //nolint:gosec // bounded by the bridge
	if req.Loss != nil {
		p.Loss, p.HasLoss = *req.Loss, true
	}
	if req.Metric != nil {
		p.Metric, p.HasMetric, p.MetricName = *req.Metric, true, req.MetricName
	}
	return h.Engine.Report(req.Session, p)
}

// Close implements bridge.Handler.
func (h Handler) Close(ctx context.Context, req wire.CloseRequest) (wire.SyncResponse, error) {
	h.Engine.Count(req.Session, counts(req.Counts))
	if req.Weight != nil {
		h.Engine.Weigh(req.Session, uint32(*req.Weight)) //nolint:gosec // bounded by the bridge
	}
	r, err := h.Engine.Close(ctx, req.Session, req.Mode)
	out, err := h.result(r, err)
	out.Warnings = h.Engine.Warnings(req.Session, req.Seq, true)
	return out, err
}

// Abort implements bridge.Handler.
func (h Handler) Abort(ctx context.Context, req wire.AbortRequest) error {
	return h.Engine.Abort(ctx, req.Session, req.Reason)
}

// Gone is what the bridge calls when a program has ended; nil if this runner has started it, and so sees its end.
func (r *Runner) Gone(h Handler) func(ctx context.Context, session string) {
	if r.how != nil {
		return nil
	}
	return h.gone
}

// gone ends the session of a program that has ended without a word, such as one that was killed.
func (h Handler) gone(ctx context.Context, session string) {
	if !h.Engine.Live(session) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, goneTime)
	defer cancel()
	if err := h.Engine.Abort(ctx, session, "the program ended in the middle of its session"); err != nil {
		h.Log.Warn("could not tell the contract that the program has ended", "session", session, "err", err)
	}
}

func (h Handler) result(r *wire.SyncResponse, err error) (wire.SyncResponse, error) {
	if errors.Is(err, context.DeadlineExceeded) {
		ctx, cancel := context.WithTimeout(context.Background(), explainTime)
		defer cancel()
		return wire.SyncResponse{}, &bridge.PendingError{Waiting: h.Engine.Waiting(ctx)}
	}
	if err != nil {
		return wire.SyncResponse{}, err
	}
	return *r, nil
}

// server is the Bridge of this machine.
type server struct{ *bridge.Server }

// OpenBridge makes the socket by which a program reaches this node.
func OpenBridge(cfg bridge.Config) (Bridge, error) {
	s, err := bridge.NewServer(cfg)
	if err != nil {
		return nil, err
	}
	return server{s}, nil
}

// CreateSlots implements Bridge.
func (s server) CreateSlots(bytes int64) (models.Slots, error) {
	slots, err := s.Server.CreateSlots(bytes)
	if err != nil {
		return nil, err // never a nil *bridge.Slots in an interface
	}
	return bridgeSlots{slots}, nil
}

// OpenSlots implements Bridge.
func (s server) OpenSlots(bytes int64, local, committed string) (models.Slots, error) {
	slots, err := s.Server.OpenSlots(bytes, local, committed)
	if err != nil {
		return nil, err // the same
	}
	return bridgeSlots{slots}, nil
}

// bridgeSlots adapts the bridge's weight files to the engine.
type bridgeSlots struct{ *bridge.Slots }

var _ models.Slots = bridgeSlots{}

// Local implements models.Slots.
func (s bridgeSlots) Local() models.Slot { return s.Slots.Local() }

// LocalName implements models.Slots.
func (s bridgeSlots) LocalName() string { return s.Slots.Local().Name() }

// Merging implements models.Slots.
func (s bridgeSlots) Merging() models.Slot { return s.Slots.Merging() }

// Committed implements models.Slots; the engine asks only when something was committed.
func (s bridgeSlots) Committed() models.Slot { return s.Slots.Committed() }
