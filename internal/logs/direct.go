package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/text"
)

// Idle is how long a host that hands out a log directly says nothing at most: where there is nothing to say, a text without lines.
const Idle = 10 * time.Second

// judgeAgain is how often the swarm is asked again whether whoever follows a log may still have it.
const judgeAgain = time.Minute

// MaxDirect bounds a text that is handed out directly, in bytes.
const MaxDirect = 64 << 10

// AskDirect signs a request for a log that its host is to hand out directly: nothing is to be sealed, so part has no key.
func AskDirect(source identity.Source, swarmID string, part *swarmv1.LogPart) (*swarmv1.LogOrder, error) {
	part.Key, part.ExpiresUnixMs = nil, time.Now().Add(Valid).UnixMilli()
	return Sign(source, swarmID, part)
}

// Direct hands out a log to asker, who has shown an SVID on the connection by which send leads there. Nothing is sealed, so only asker's own
// requests are answered; one of before may be shown again by asker alone. send blocks while it is not read on. What keeps asker from the log
// is sent; an error says why nothing more could be. If nothing was, asker may ask through SNs. A log that is handed out for longer ends when the
// swarm's rights keep asker from it; while no SN says so it goes on.
func (h *Host) Direct(ctx context.Context, asker identity.ID, o *swarmv1.LogOrder, send func(*swarmv1.LogText) error) error {
	part, err := h.own(asker, o)
	facts := append(factsOf(asker, part), "direct", true)
	if err == nil {
		err = h.cfg.Allow(asker.String())
	}
	if err == nil {
		denied, unknown := h.cfg.Rights(ctx, asker.String(), part)
		if unknown != nil {
			return fmt.Errorf("ask an SN for the rights of %s: %w", asker, unknown)
		}
		if denied != "" {
			err = errors.New(denied)
		}
	}
	q := newQueue()
	if err != nil {
		q.end(h.refuses(asker, part, facts, err), true)
	} else {
		h.cfg.Log.Log(ctx, h.level(slog.LevelInfo, asker, part), "a log is handed out", facts...)
		defer h.read(ctx, part, q)()
		defer h.judges(ctx, asker, part, q)()
	}
	t := q.take()
	if t == nil {
		t = &swarmv1.LogText{} // it is to be known at once that the log comes from here
	}
	for {
		if err := send(t); err != nil || t.GetOver() {
			return err
		}
		if t = q.take(); t == nil {
			if t, err = q.more(ctx); err != nil {
				return err
			}
		}
	}
}

// judges asks the swarm again and again whether asker may have a log, and ends it when not, until stop is called, which waits for that.
func (h *Host) judges(ctx context.Context, asker identity.ID, part *swarmv1.LogPart, q *queue) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var judge sync.WaitGroup
	judge.Go(func() {
		facts, asked := append(factsOf(asker, part), "direct", true), true
		for pause.For(ctx, judgeAgain) == nil {
			denied, err := h.cfg.Rights(ctx, asker.String(), part)
			if err != nil && asked && ctx.Err() == nil {
				h.cfg.Log.Warn("a log is handed out on, and no SN says whether the rights still allow it", append(facts, "err", text.Line(err.Error()))...)
			}
			if asked = err == nil; denied != "" {
				q.cut(h.refuses(asker, part, facts, errors.New(denied)))
				return
			}
		}
	})
	return func() {
		cancel()
		judge.Wait()
	}
}

// own returns what asker has signed for this host to be handed out directly.
func (h *Host) own(asker identity.ID, o *swarmv1.LogOrder) (*swarmv1.LogPart, error) {
	part, err := PartOf(o)
	if err != nil {
		return nil, err
	}
	by, err := h.cfg.verify(o, part, time.Now())
	switch {
	case err != nil:
	case by.String() != asker.String():
		err = fmt.Errorf("the request is %s's own", by)
	case len(part.GetKey()) > 0:
		err = errors.New("the request is for a log that is sealed, which comes through SNs")
	}
	return part, err
}

// more waits for lines, and a moment longer for those that come with them. Where none come for long it returns a text without any.
func (q *queue) more(ctx context.Context) (*swarmv1.LogText, error) {
	still := time.NewTimer(Idle)
	defer still.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-still.C:
			return &swarmv1.LogText{}, nil
		case <-q.news:
		}
		if err := pause.For(ctx, lull); err != nil {
			return nil, err
		}
		if t := q.take(); t != nil {
			return t, nil
		}
	}
}
