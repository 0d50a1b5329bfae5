package p2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
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

// life is what of a connection changes when either side renews its SVID.
//
// Both moments are read from certificates and compared with this machine's clock, without grace: the same clock has
// judged the chain at the handshake, so who is let in by it is also cut off by it. Which clock is wrong can't be known
// here. Bundles are not looked at again: when an authority is taken out of them its certificates open no connection and
// renew none from then on, and the connections that they opened end with the SVID, within one SVID lifetime.
type life struct {
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
func (l *life) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := time.Until(l.expires)
	if left > 0 && l.ended == nil {
		return left
	}
	if l.ended == nil {
		l.ended = fmt.Errorf("connection closed: %w: the peer's ended at %s and it has shown no newer one", ErrExpired, l.expires.UTC().Format(time.RFC3339))
		if l.refusal != nil {
			l.ended = fmt.Errorf("%w; the last one was refused: %w", l.ended, l.refusal)
		}
	}
	return 0
}

// extend takes a newer end of the peer's SVID. One that is not later changes nothing.
func (l *life) extend(expires time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended != nil:
		return l.ended
	case expires.Before(l.expires):
		return errors.New("its SVID ends before the one that this connection knows")
	}
	l.expires, l.refusal = expires, nil // the same again is a repeated answer whose verdict was lost
	return nil
}

// refused keeps why the peer's new SVID was not taken.
func (l *life) refused(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal = why
}

// pass keeps the connection from new streams: its peer has become another.
func (l *life) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passing = true
}

// admit lets the peer begin to re-authenticate, once at a time and a few times per second; done ends it.
func (l *life) admit() (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.proving || now.Before(l.next) {
		return nil, errors.New("re-authentication too often: wait a moment")
	}
	l.proving, l.next = true, now.Add(proofEvery)
	return func() {
		l.mu.Lock()
		l.proving = false
		l.mu.Unlock()
	}, nil
}

func (l *life) ownSVID() shownSVID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown
}

func (l *life) showed(s shownSVID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = s
}

// usable reports whether new streams should use the connection, own being our present identity: not when either side
// has become another since, for then it ends soon.
func (l *life) usable(own spiffeid.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.ended == nil && !l.passing && now.Before(l.expires) && now.Before(l.shown.expires) && l.shown.id == own
}

func (l *life) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// explain adds to an error of the connection's streams that an SVID was the reason.
func (l *life) explain(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // streams return it bare, and it must stay so
		return err
	}
	if ended := l.why(); ended != nil {
		return fmt.Errorf("%w: %w", ended, err)
	}
	if errors.Is(err, &network.ConnError{Remote: true, ErrorCode: svidExpired}) {
		return fmt.Errorf("connection closed by the peer: %w: it has seen no valid newer one of ours: %w", ErrExpired, err)
	}
	return err
}

// guard closes the connection when its peer's SVID ends without a newer one.
func (h *Host) guard(ctx context.Context, c *conn) {
	for {
		left := c.life.left()
		if left <= 0 {
			break
		}
		if !sleep(ctx, min(left, expiryCheck), nil) {
			return
		}
	}
	h.cfg.Log.Info("connection closed: the peer's SVID has ended and it has shown no newer one", "peer", c.peer.ID.String(), "spiffe_id", c.peer.Identity.String(), "error", c.life.why())
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

const (
	// A peer that does not take our SVID is asked again after so long, and longer: it may get a new bundle soon.
	renewRetry    = 300 * time.Millisecond
	renewRetryMax = 30 * time.Second
	// pollMin and renewRetryMax bound how often a source that tells no changes is asked.
	pollMin = 250 * time.Millisecond
)

// renewal is the work of showing one connection's peer each new SVID of ours.
type renewal struct {
	conn     *conn
	backoff  time.Duration
	warned   bool
	hopeless []byte // an SVID that the peer won't ever take on this connection
}

// renew shows the peer each new SVID of ours until ctx ends.
func (h *Host) renew(ctx context.Context, c *conn) {
	r := &renewal{conn: c, backoff: renewRetry}
	for ctx.Err() == nil {
		var wake <-chan struct{}
		if p, ok := h.cfg.Source.(interface{ Changed() <-chan struct{} }); ok {
			wake = p.Changed()
		}
		wait := h.renewOnce(ctx, r)
		if wake == nil && wait == 0 {
			wait = min(max(time.Until(c.life.ownSVID().expires)/8, pollMin), renewRetryMax)
		}
		if !sleep(ctx, wait, wake) {
			return
		}
	}
}

// renewOnce shows the peer our SVID if that is news to it, and returns after how long to try again, 0 if all is well.
func (h *Host) renewOnce(ctx context.Context, r *renewal) time.Duration {
	known := r.conn.life.ownSVID()
	svid, now, err := h.ownSVID()
	if err != nil || bytes.Equal(now.der, known.der) || bytes.Equal(now.der, r.hopeless) {
		return 0
	}
	if now.id == known.id && !now.expires.After(known.expires) {
		return 0 // nothing to win
	}
	log := h.cfg.Log.With("peer", r.conn.peer.ID.String(), "peer_spiffe_id", r.conn.peer.Identity.String(), "expires", known.expires)
	err = h.reauthenticate(ctx, r.conn, svid)
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil:
		r.conn.life.showed(now)
		r.backoff, r.warned = renewRetry, false
		log.Debug("showed the peer our new SVID", "new_expires", now.expires)
		return 0
	case now.id != known.id:
		// The attempt was only to tell the peer, so that it opens no more streams here either.
		r.hopeless = now.der
		log.Info("our identity has changed: this connection keeps the earlier one and ends with it, new streams get another", "earlier", known.id.String(), "spiffe_id", now.id.String())
		return 0
	}
	if !r.warned {
		log.Warn("the peer does not take our new SVID: trying again until the old one ends", "error", err)
	}
	r.warned = true
	wait := min(r.backoff, max(time.Until(known.expires)/4, renewRetry))
	r.backoff = min(2*r.backoff, renewRetryMax)
	return wait
}

// ownSVID returns our SVID of the moment.
func (h *Host) ownSVID() (*x509svid.SVID, shownSVID, error) {
	svid, err := h.cfg.Source.GetX509SVID()
	if err != nil {
		return nil, shownSVID{}, err
	}
	leaf := svid.Certificates[0]
	id, err := identity.CertID(h.cfg.Source, leaf)
	return svid, shownSVID{der: leaf.Raw, id: id, expires: leaf.NotAfter}, err
}
