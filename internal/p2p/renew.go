package p2p

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
)

// renewer shows peers each new SVID of ours, and judges theirs.
type renewer struct {
	source  identity.Source
	domains identity.Domains
	refuse  func(peer.ID) error
	said    *throttle
	log     *slog.Logger
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

// run shows the peer each new SVID of ours until ctx ends.
func (r *renewer) run(ctx context.Context, c *conn) {
	work := &renewal{conn: c, backoff: renewRetry}
	for ctx.Err() == nil {
		var wake <-chan struct{}
		if p, ok := r.source.(interface{ Changed() <-chan struct{} }); ok {
			wake = p.Changed()
		}
		wait := r.once(ctx, work)
		if wake == nil && wait == 0 {
			wait = min(max(time.Until(c.expiry.ownSVID().expires)/8, pollMin), renewRetryMax)
		}
		if !sleep(ctx, wait, wake) {
			return
		}
	}
}

// once shows the peer our SVID if that is news to it, and returns after how long to try again, 0 if all is well.
func (r *renewer) once(ctx context.Context, work *renewal) time.Duration {
	known := work.conn.expiry.ownSVID()
	svid, now, err := r.ownSVID()
	if err != nil || bytes.Equal(now.der, known.der) || bytes.Equal(now.der, work.hopeless) {
		return 0
	}
	if now.id == known.id && !now.expires.After(known.expires) {
		return 0 // nothing to win
	}
	log := r.log.With("peer", work.conn.peer.ID.String(), "peer_spiffe_id", work.conn.peer.Identity.String(), "expires", known.expires)
	err = reauthenticate(ctx, work.conn, svid)
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil:
		work.conn.expiry.showed(now)
		work.backoff, work.warned = renewRetry, false
		log.Debug("showed the peer our new SVID", "new_expires", now.expires)
		return 0
	case now.id != known.id:
		// The attempt was only to tell the peer, so that it opens no more streams here either.
		work.hopeless = now.der
		log.Info("our identity has changed: this connection keeps the earlier one and ends with it, new streams get another", "earlier", known.id.String(), "spiffe_id", now.id.String())
		return 0
	}
	if !work.warned {
		log.Warn("the peer does not take our new SVID: trying again until the old one ends", "error", err)
	}
	work.warned = true
	wait := min(work.backoff, max(time.Until(known.expires)/4, renewRetry))
	work.backoff = min(2*work.backoff, renewRetryMax)
	return wait
}

// ownSVID returns our SVID of the moment.
func (r *renewer) ownSVID() (*x509svid.SVID, shownSVID, error) {
	svid, err := r.source.GetX509SVID()
	if err != nil {
		return nil, shownSVID{}, err
	}
	leaf := svid.Certificates[0]
	id, err := identity.CertID(r.source, leaf)
	return svid, shownSVID{der: leaf.Raw, id: id, expires: leaf.NotAfter}, err
}

// serve lets the peer show its new SVID. The connection lives on whatever comes of it, until its peer's SVID ends.
func (r *renewer) serve(ctx context.Context, c *conn, s network.MuxedStream) {
	done, err := c.expiry.admit()
	if err != nil {
		_ = writeVerdict(s, err)
		_ = s.Close()
		return
	}
	defer done()
	_ = s.SetDeadline(time.Now().Add(reauthTimeout))
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	var nonce [nonceLen]byte
	_, _ = rand.Read(nonce[:]) // never fails
	_, err = s.Write(append(marshalVerdict(nil), nonce[:]...))
	var b []byte
	if err == nil {
		b, err = ReadFrame(s, maxProof)
	}
	if err == nil {
		err = r.takeProof(c, b, nonce[:])
	}
	if err != nil {
		if omitted, ok := r.said.allow(ctx, r.log, slog.LevelWarn); ok {
			r.log.Warn("new SVID of a peer refused", "peer", c.peer.ID.String(), "spiffe_id", c.peer.Identity.String(), "error", err, "not_logged", omitted)
		}
	}
	_ = writeVerdict(s, err)
	_ = s.Close()
}

// takeProof judges the peer's answer and, if it is good, prolongs the connection. Its error is told to the peer.
func (r *renewer) takeProof(c *conn, b, nonce []byte) error {
	expires, err := r.judgeProof(c, b, nonce)
	if err == nil {
		err = c.expiry.extend(expires)
	}
	if err != nil {
		c.expiry.refused(err)
		return err
	}
	r.log.Debug("peer showed a new SVID", "peer", c.peer.ID.String(), "spiffe_id", c.peer.Identity.String(), "expires", expires)
	return nil
}

// judgeProof returns when the SVID of the answer ends.
func (r *renewer) judgeProof(c *conn, b, nonce []byte) (time.Time, error) {
	p, err := parseProof(b)
	if err != nil {
		return time.Time{}, err
	}
	id, leaf, err := identity.VerifySVID(p.chain, r.source, r.domains)
	if err != nil {
		return time.Time{}, err
	}
	if err := identity.VerifySVIDSignature(leaf, reauthMessage(c.exporter, c.us.other(), nonce, p.chain[0]), p.signature); err != nil {
		return time.Time{}, fmt.Errorf("signature does not belong to this connection and moment: %w", err)
	}
	if id.SPIFFE() != c.peer.Identity.SPIFFE() {
		c.expiry.pass()
		return time.Time{}, fmt.Errorf("%w: this connection belongs to %s, not to %s: open a new one", identity.ErrNotAuthorized, c.peer.Identity, id)
	}
	return leaf.NotAfter, r.refuse(c.peer.ID)
}
