package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/internal/reach"
)

// Reach is what a host knows of the way to a peer.
type Reach struct {
	// Linked: a connection stands, whichever side has made it.
	Linked bool
	// Failed is how the last try to open one from here failed; its Err is nil if it did not, or there was none.
	Failed reach.Failure
}

// Reach returns what is known of the way to the peer: nothing is dialled. Connections whose peer does not fit do not count; fits must not
// block.
func (h *Host) Reach(to Addr, fits func(Peer) error) Reach {
	return Reach{Linked: h.reusable(to, fits) != nil, Failed: h.reversals.failures.Last(to.HostPort())}
}

// Link has a connection with the peer stand, which may be one of the peer's making, as for Dial. It fails as Dial does.
func (h *Host) Link(ctx context.Context, to Addr, fits func(Peer) error) error {
	ctx, cancel, err := mayDial(ctx, h, to)
	if err != nil {
		return err
	}
	defer cancel()
	if h.reusable(to, fits) != nil {
		return nil
	}
	c, err := either(ctx, h, to, fits, 0)
	if err == nil {
		err = fits(c.peer)
	}
	if err == nil && !c.common() {
		_ = c.Close() // nothing could go over it
		err = errNoSwarm
	}
	if err != nil {
		return fmt.Errorf("dial %s: %w", to, err)
	}
	return nil
}

// errNoSwarm is of a peer that says it belongs to no swarm, or to another.
var errNoSwarm = errors.New("it shows no swarm that this node belongs to")

// mayDial checks an address that is to be dialled, and bounds the time.
func mayDial(ctx context.Context, h *Host, to Addr) (context.Context, context.CancelFunc, error) {
	if err := to.validate(); err != nil {
		return nil, nil, fmt.Errorf("dial peer: %w", err)
	}
	if err := h.cfg.Refuse(to.PeerID); err != nil {
		return nil, nil, fmt.Errorf("dial %s: %w", to, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("no answer within %s: %w", dialTimeout, context.DeadlineExceeded))
	return ctx, cancel, nil
}

// either returns a connection that this host makes, or one that the peer makes meanwhile: whichever stands first. So two of which only
// one can be dialled, for a firewall or NAT, come together as soon as both try. Where the peer's host refuses at once the peer has
// Config.TheirTurn to open one. Those that the table took in up to the one that was tried do not count.
func either(ctx context.Context, h *Host, to Addr, fits func(Peer) error, tried uint64) (*conn, error) {
	usable := usableFor(h, to, fits)
	if usable == nil || h.cfg.SwarmID() == "" { // Then no connection serves a second stream.
		return h.connect(ctx, to)
	}
	type result struct {
		c   *conn
		err error
	}
	begun := time.Now()
	ours := make(chan result, 1)
	go func() {
		c, err := h.connect(ctx, to)
		ours <- result{c, err}
	}()
	var failed error
	var theirTurn <-chan time.Time
	for {
		theirs, adopted := h.table.newestOr(to.PeerID, func(c *conn) bool { return c.order > tried && usable(c) })
		if theirs != nil {
			return theirs, nil
		}
		select {
		case r := <-ours:
			left := h.cfg.TheirTurn - time.Since(begun)
			if dial := (*reach.Error)(nil); r.err == nil || !errors.As(r.err, &dial) || left <= 0 {
				return r.c, r.err
			}
			t := time.NewTimer(left)
			defer t.Stop()
			failed, ours, theirTurn = r.err, nil, t.C
		case <-adopted:
		case <-theirTurn:
			return nil, failed
		case <-ctx.Done():
			return nil, cmp.Or(failed, context.Cause(ctx))
		}
	}
}
