package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

const (
	// svidExpired is the code with which a connection is closed whose peer has shown no new SVID in time.
	svidExpired network.ConnErrorCode = 0x53_56_49_44
	// farewell bounds the telling of it: a peer that does not read must not live longer by that.
	farewell = 500 * time.Millisecond
	// expiryCheck is how often the wall clock is looked at: timers stand still while a machine sleeps, and clocks are set.
	expiryCheck = time.Minute
	// proofEvery is how often one connection's peer may re-authenticate.
	proofEvery = 250 * time.Millisecond
)

// ErrExpired reports a connection that was closed because the SVID of one side ended before it had shown a newer one.
var ErrExpired = errors.New("SVID expired")

// shownSVID is the SVID of our own that the peer of a connection knows.
type shownSVID struct {
	der     []byte
	id      spiffeid.ID
	expires time.Time
}

// expiry is what of a connection changes when either side renews its SVID.
//
// Both moments are read from certificates and compared with this machine's clock, without grace: the same clock has
// judged the chain at the handshake, so who is let in by it is also cut off by it. Which clock is wrong can't be known
// here. Bundles are not looked at again: when an authority is taken out of them its certificates open no connection and
// renew none from then on, and the connections that they opened end with the SVID, within one SVID lifetime.
type expiry struct {
	mu      sync.Mutex
	expires time.Time // when the peer's SVID ends
	ended   error     // set once it was closed for that
	refusal error     // why the peer's last SVID was not taken
	passing bool      // the peer has another identity by now and will let this connection end
	shown   shownSVID
	proving bool // a control stream of the peer is open
	next    time.Time
}

// left returns how long the peer's SVID is valid yet. When it has ended it says so once for all.
func (e *expiry) left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	left := time.Until(e.expires)
	if left > 0 && e.ended == nil {
		return left
	}
	if e.ended == nil {
		e.ended = fmt.Errorf("connection closed: %w: the peer's ended at %s and it has shown no newer one", ErrExpired, e.expires.UTC().Format(time.RFC3339))
		if e.refusal != nil {
			e.ended = fmt.Errorf("%w; the last one was refused: %w", e.ended, e.refusal)
		}
	}
	return 0
}

// extend takes a newer end of the peer's SVID. One that is not later changes nothing.
func (e *expiry) extend(expires time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.ended != nil:
		return e.ended
	case expires.Before(e.expires):
		return errors.New("its SVID ends before the one that this connection knows")
	}
	e.expires, e.refusal = expires, nil // the same again is a repeated answer whose verdict was lost
	return nil
}

// refused keeps why the peer's new SVID was not taken.
func (e *expiry) refused(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusal = why
}

// pass keeps the connection from new streams: its peer has become another.
func (e *expiry) pass() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passing = true
}

// admit lets the peer begin to re-authenticate, once at a time and a few times per second; done ends it.
func (e *expiry) admit() (done func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.proving || now.Before(e.next) {
		return nil, errors.New("re-authentication too often: wait a moment")
	}
	e.proving, e.next = true, now.Add(proofEvery)
	return func() {
		e.mu.Lock()
		e.proving = false
		e.mu.Unlock()
	}, nil
}

func (e *expiry) ownSVID() shownSVID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shown
}

func (e *expiry) showed(s shownSVID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shown = s
}

// usable reports whether new streams should use the connection, own being our present identity: not when either side
// has become another since, for then it ends soon.
func (e *expiry) usable(own spiffeid.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	return e.ended == nil && !e.passing && now.Before(e.expires) && now.Before(e.shown.expires) && e.shown.id == own
}

func (e *expiry) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}

// explain adds to an error of the connection's streams that an SVID was the reason.
func (e *expiry) explain(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // streams return it bare, and it must stay so
		return err
	}
	if ended := e.why(); ended != nil {
		return fmt.Errorf("%w: %w", ended, err)
	}
	if errors.Is(err, &network.ConnError{Remote: true, ErrorCode: svidExpired}) {
		return fmt.Errorf("connection closed by the peer: %w: it has seen no valid newer one of ours: %w", ErrExpired, err)
	}
	return err
}

// closeExpired closes the connection when its peer's SVID ends without a newer one. It returns then, or when ctx ends.
func closeExpired(ctx context.Context, c *conn, log *slog.Logger) {
	for {
		left := c.expiry.left()
		if left <= 0 {
			break
		}
		if !sleep(ctx, min(left, expiryCheck), nil) {
			return
		}
	}
	log.Info("connection closed: the peer's SVID has ended and it has shown no newer one", "peer", c.peer.ID.String(), "spiffe_id", c.peer.Identity.String(), "error", c.expiry.why())
	cut := time.AfterFunc(farewell, func() { _ = c.socket.Close() })
	defer cut.Stop()
	_ = c.CloseWithError(svidExpired)
}

// sleep waits for d, or until wake is closed. It reports false when ctx has ended. No d is for ever.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	var timer <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
