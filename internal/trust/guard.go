// Package trust is what an SL judges by itself. SNs say who is registered, who takes part in a round and who owns what. Before
// this node sends a peer parameters, or takes a model from it, it holds these words to what the peer's own SVID has signed, to its
// owner's list of peers, and to what everybody can compute.
package trust

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/round"
)

const (
	// MaxAsk bounds the nodes whose proofs one call asks for.
	MaxAsk = 32
	// MaxRefused bounds the nodes that Refused names.
	MaxRefused = 64
	// maxKnown bounds the nodes of which anything is kept.
	maxKnown = 4096
	// A proof that was found good is checked again after recheck, since bundles change; one that was not had is asked for again
	// after askAgain.
	recheck  = 30 * time.Second
	askAgain = 5 * time.Second
)

// ErrUnknown says that a node can't be judged before Learn has asked for its proof.
var ErrUnknown = errors.New("its registration has not been checked yet")

// ErrNotShown says that a node has been asked for, and that no SN has shown yet what it has signed: another one may.
var ErrNotShown = errors.New("the SN gives no registration that its own SVID has signed")

// notShown says why ErrNotShown is.
type notShown struct{ error }

// Is makes it an ErrNotShown.
func (notShown) Is(target error) bool { return target == ErrNotShown }

// ErrEnded says that the SVID of a node has ended: its own matter, and no SN's.
var ErrEnded = errors.New("its SVID has ended")

// ErrNotAllowed says that this node's owner has not named a peer.
var ErrNotAllowed = errors.New("--allow-peer of this node does not name it")

// Proof is what a node's own SVID has signed of its registration.
type Proof struct {
	Name      string
	Chain     [][]byte // the SVID's certificates, DER, leaf first
	Signature []byte   // by the SVID's key over identity.OwnershipMessage
}

// Config is what a Guard works with.
type Config struct {
	Source  identity.Source
	Domains identity.Domains
	SwarmID func() string
	// Allow says whose nodes this one takes part with; empty: every SL that Domains accept.
	Allow pattern.List
	// Ask returns the proofs of registration that an SN has of nodes with these names, at most MaxAsk. It blocks.
	Ask func(ctx context.Context, names []string) ([]*Proof, error)
	// Doubt is called when an SN's word does not hold. It may go to another SN, and returns the name of the one that said so. Nil:
	// nobody asks.
	Doubt func() string
	Log   *slog.Logger
}

// Guard judges nodes and plans. A nil one accepts every node that a view shows. Safe for concurrent use.
type Guard struct {
	cfg Config

	mu      sync.Mutex
	known   map[who]*known
	unknown answer[*round.Session] // of Unknown
	refused answer[string]         // of Refused, for refusedBy
	// refusedBy is the node that asked for refused.
	refusedBy string
}

// who is a node as a view shows it. Another node key under a name that is known is another node, which takes nothing from the one
// that is.
type who struct{ name, spiffeID, peerID string }

func whoIs(m *round.Session) who { return who{m.Node, m.SPIFFEID, m.PeerID} }

// known is what a node has shown.
type known struct {
	digest        string // of the proof, as a view named it
	proof         *Proof
	ends, checked time.Time
	err           error     // why it proves nothing; nil: it does
	again         time.Time // when to ask again although the digest is the same; zero: never
}

// New returns a guard that knows nobody yet.
func New(cfg Config) *Guard { return &Guard{cfg: cfg, known: map[who]*known{}} }

// Peer returns why this node shares nothing with the one of a session, nil if it may. An error that wraps ErrUnknown says that
// Learn must be called first.
func (g *Guard) Peer(m *round.Session) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.peerLocked(m)
}

func (g *Guard) peerLocked(m *round.Session) error {
	err := g.Allowed(m.SPIFFEID)
	if err == nil {
		err = g.judgeLocked(m)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Node, err)
	}
	return nil
}

// Allowed returns nil if this node's owner lets it take part with nodes of a SPIFFE ID.
func (g *Guard) Allowed(spiffeID string) error {
	if g == nil || len(g.cfg.Allow) == 0 || g.cfg.Allow.Match(spiffeID) {
		return nil
	}
	return fmt.Errorf("%w: it is %.256q", ErrNotAllowed, spiffeID)
}

// judgeLocked holds a session to the proof that its node has shown.
func (g *Guard) judgeLocked(m *round.Session) error {
	k, now := g.known[whoIs(m)], time.Now()
	if k == nil {
		if m.Proof == "" {
			return errors.New("the swarm shows no registration that its own SVID has signed")
		}
		return ErrUnknown
	}
	fresh := k.digest == m.Proof && (k.again.IsZero() || now.Before(k.again))
	if k.proof != nil && now.Sub(k.checked) > recheck { // also a bad one: bundles and clocks change
		if g.verify(k, m); k.err != nil {
			g.cfg.Log.Warn("a peer's registration is not good any more", "node", m.Node, "err", k.err)
		}
	}
	switch {
	case k.err == nil && now.Before(k.ends):
		return nil
	case !fresh && m.Proof != "":
		return ErrUnknown
	case k.err != nil:
		return k.err
	}
	return fmt.Errorf("%w at %s, and it has not signed its registration with a newer one", ErrEnded, k.ends.UTC().Format(time.RFC3339))
}

// verify checks a proof against this node's own bundle and clock.
func (g *Guard) verify(k *known, m *round.Session) {
	id, leaf, err := identity.VerifySVID(k.proof.Chain, g.cfg.Source, g.cfg.Domains, identity.RoleSL)
	switch {
	case err == nil:
		err = g.signedFor(id, leaf, k.proof, m)
	case g.hasEnded(k.proof, m):
		err = fmt.Errorf("%w: %w", ErrEnded, err)
	default:
		err = fmt.Errorf("its registration was not signed by an SVID that this node accepts: %w", err)
	}
	k.err, k.checked = err, time.Now()
	if err == nil {
		k.ends = leaf.NotAfter // VerifySVID holds for now: the chain above it is checked again before long
	}
}

// signedFor holds a proof whose chain was verified to what the swarm says of the node.
func (g *Guard) signedFor(id identity.ID, leaf *x509.Certificate, proof *Proof, m *round.Session) error {
	switch {
	case id.String() != m.SPIFFEID:
		return fmt.Errorf("its registration was signed by %s, the swarm says %.256q", id, m.SPIFFEID)
	case !id.MaySpeakFor(m.Node):
		return fmt.Errorf("its registration was signed by %s, which has another name", id)
	}
	err := identity.VerifySVIDSignature(leaf, identity.OwnershipMessage(g.cfg.SwarmID(), m.Node, m.PeerID), proof.Signature)
	if err != nil {
		return fmt.Errorf("the SVID of %s has not signed for node key %.64s of this swarm: %w", id, m.PeerID, err)
	}
	return nil
}

// hasEnded reports whether a proof was good until its SVID's end. Anybody can make a certificate of yesterday.
func (g *Guard) hasEnded(proof *Proof, m *round.Session) bool {
	chain, err := identity.ParseChain(proof.Chain)
	if err != nil || len(chain) == 0 || !time.Now().After(chain[0].NotAfter) {
		return false
	}
	sid, err := identity.VerifyChainAt(g.cfg.Source, chain, chain[0].NotAfter)
	if err != nil {
		return false
	}
	id, err := g.cfg.Domains.Check(sid, identity.RoleSL)
	return err == nil && g.signedFor(id, chain[0], proof, m) == nil
}

// Unknown returns the sessions that can't be judged, or whose nodes have signed anew. Who lives may hold the final model after its
// session's end. The sessions must not be modified from then on, nor what is returned.
func (g *Guard) Unknown(sessions []*round.Session) []*round.Session {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.unknown.holds(sessions, now) {
		return g.unknown.found
	}
	next := answer[*round.Session]{of: sessions, until: now.Add(recheck)}
	for _, m := range sessions {
		if m.State == "ended" && !m.Live || m.Proof == "" || g.Allowed(m.SPIFFEID) != nil {
			continue
		}
		k := g.known[whoIs(m)]
		if k == nil || k.digest != m.Proof ||
			!k.again.IsZero() && !now.Before(k.again) {
			next.found = append(next.found, m)
		}
		next.notBeyond(k, now)
	}
	g.unknown = next
	return next.found
}

// Learn asks an SN for the proofs of Unknown sessions and checks them. It blocks; what can't be had is an error of the node from
// then on, until it is asked for again.
func (g *Guard) Learn(ctx context.Context, sessions []*round.Session) {
	for part := range slices.Chunk(g.Unknown(sessions), MaxAsk) {
		names := make([]string, len(part))
		for i, m := range part {
			names[i] = m.Node
		}
		proofs, err := g.cfg.Ask(ctx, names)
		if ctx.Err() != nil {
			return
		}
		g.mu.Lock()
		g.unknown, g.refused = answer[*round.Session]{}, answer[string]{}
		if len(g.known) > maxKnown {
			clear(g.known)
		}
		for _, m := range part {
			g.learnLocked(m, proofs, err)
		}
		g.mu.Unlock()
	}
}

func (g *Guard) learnLocked(m *round.Session, proofs []*Proof, err error) {
	k := &known{digest: m.Proof}
	i := slices.IndexFunc(proofs, func(p *Proof) bool { return p.Name == m.Node })
	switch {
	case err != nil:
		k.err, k.again = notShown{fmt.Errorf("its registration can't be checked: %w", err)}, time.Now().Add(askAgain)
	case i < 0:
		k.err, k.again = ErrNotShown, time.Now().Add(askAgain)
	default:
		k.proof = proofs[i]
		if g.verify(k, m); k.err != nil {
			k.again = time.Now().Add(recheck) // another SN may have the true one
		}
	}
	old := g.known[whoIs(m)]
	if k.err != nil && old != nil && old.err == nil && time.Now().Before(old.ends) {
		k.proof, k.ends, k.checked, k.err = old.proof, old.ends, old.checked, nil // what it has shown before still holds
	}
	g.known[whoIs(m)] = k
}

// Refused names the nodes of the sessions with which this one shares nothing, sorted, at most MaxRefused. Those that can't be
// judged yet are not among them. The sessions must not be modified from then on, nor what is returned.
func (g *Guard) Refused(sessions []*round.Session, self string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.refusedBy == self && g.refused.holds(sessions, now) {
		return g.refused.found
	}
	next := answer[string]{of: sessions, until: now.Add(recheck)}
	for _, m := range sessions {
		if m.State == "ended" || m.Node == self {
			continue
		}
		if err := g.peerLocked(m); err != nil && !errors.Is(err, ErrUnknown) {
			next.found = append(next.found, m.Node)
		}
		next.notBeyond(g.known[whoIs(m)], now)
	}
	slices.Sort(next.found)
	next.found = slices.Compact(next.found)
	next.found = next.found[:min(len(next.found), MaxRefused)]
	g.refused, g.refusedBy = next, self
	return next.found
}
