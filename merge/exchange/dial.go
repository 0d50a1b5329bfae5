package exchange

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/dialing"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// dialer opens streams to owners for an attempt.
type dialer struct {
	plan    *assignment
	ctx     context.Context //nolint:containedctx // It is the attempt's.
	cfg     *Config
	clock   *dialing.Clock
	limiter *dialing.Limiter // of the node
	dial    Dial
	idle    *idleStreams
}

// open takes an idle stream to the owner or dials one.
func (d *dialer) open(j int) (c *wire.Conn, reused bool, err error) {
	if c := d.idle.take(d.line(j)); c != nil {
		return c, true, nil
	}
	var first time.Time // when this node began to dial
	for {
		if err := d.limiter.Enter(d.ctx); err != nil {
			return nil, false, err
		}
		begun := time.Now()
		s, err := d.once(j)
		d.limiter.Leave(time.Since(begun), err == nil || !unanswered(err))
		if err == nil {
			d.clock.Opened()
			return wire.NewConn(s, d.cfg.StallTimeout), false, nil
		}
		if first.IsZero() {
			first = begun
		}
		if !d.mayAnswer(err, first) {
			return nil, false, err
		}
		if !d.pause() {
			return nil, false, d.ctx.Err()
		}
	}
}

// pause waits before another try; false: the attempt has ended.
func (d *dialer) pause() bool {
	select {
	case <-time.After(d.cfg.Grace / 8):
		return true
	case <-d.ctx.Done():
		return false
	}
}

// once dials the owner j, for the stall time at most.
func (d *dialer) once(j int) (Stream, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.cfg.StallTimeout)
	defer cancel()
	return d.dial(ctx, j, d.line(j).bulk)
}

// line is what streams to the owner j are kept by.
func (d *dialer) line(j int) line {
	return line{d.plan.node(j), d.plan.owned[j].Bytes(d.plan.Layout) >= BulkBytes}
}

// keep keeps a stream to the owner j open for the next attempt.
func (d *dialer) keep(j int, c *wire.Conn) { d.idle.put(d.line(j), c) }

// tooLate reports whether who has been asked for since then answers too late.
func (d *dialer) tooLate(since time.Time) bool {
	return time.Now().After(d.clock.Due(since, time.Time{}))
}

// mayAnswer reports whether who did not answer may do so yet: this node is busy with handshakes, so they are slow, or the peer had
// no place for one more. Among few, where nothing is queued and nothing moves, it is gone.
func (d *dialer) mayAnswer(err error, first time.Time) bool {
	busy := d.clock.Many || d.limiter.Queued() || d.clock.Quiet() < d.cfg.StallTimeout/4
	return busy && unanswered(err) && time.Now().Before(d.clock.Due(first, time.Time{}))
}

// unanswered reports whether a dial ended without the peer's word: it may have had no place, or no time yet. An error that would
// come again is an answer.
func unanswered(err error) bool {
	return wire.Late(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
