package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/trust"
)

const (
	// learnLimit bounds how long an SN is waited for that should show what nodes have signed.
	learnLimit = 10 * time.Second
	maxReason  = 512 // of a failure, in bytes
)

// peers is whom a session takes part with.
type peers struct {
	s        *session
	learning bool     // Trust asks for something
	refused  []string // nodes that this one takes part in nothing with
}

// learnLocked has what is not known of the other nodes asked for, before a plan waits for it.
func (ps *peers) learnLocked() {
	s := ps.s
	t := s.engine.cfg.Trust
	sessions := s.view.Sessions
	if refused := ps.refusedLocked(); !slices.Equal(refused, ps.refused) {
		ps.refused = refused
		s.engine.cfg.Log.Info("takes part in nothing with some peers", "contract", s.contract, "refused", refused, "why", ps.whyRefused(refused))
		signal(s.engine.toReport) // before the next plan
	}
	if t == nil || ps.learning || len(t.Unknown(sessions)) == 0 {
		return
	}
	ps.learning = true
	e := s.engine
	s.lifecycle.spawnLocked(func() {
		ctx, cancel := context.WithTimeout(s.lifecycle.ctx, learnLimit)
		t.Learn(ctx, sessions)
		cancel()
		e.mu.Lock()
		defer e.mu.Unlock()
		ps.learning = false
		s.lifecycle.notifyLocked()
		e.poke()
	})
}

// whyRefused says why the first of those refused is.
func (ps *peers) whyRefused(refused []string) string {
	s := ps.s
	for _, m := range s.view.Sessions {
		if len(refused) > 0 && m.Node == refused[0] && m.State != "ended" {
			if err := s.engine.cfg.Trust.Peer(m); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

// acceptsLocked reports whether this node takes part in the plan. One that it refuses is a failed attempt for which nothing was
// sent; one that it can't judge yet waits until learnLocked has asked.
func (at *attempts) acceptsLocked(p *round.Plan, self int) bool {
	s := at.s
	t := s.engine.cfg.Trust
	if t == nil {
		return true
	}
	of := trust.Offer{
		Self: self, Weight: s.program.closedWeight(), Most: s.open.Terms.MaxWeight(), Leaves: s.model.form.Layout.Leaves(),
	}
	if !s.program.closed && s.program.offered != nil {
		of.Weight = s.program.offered.weight
	}
	err := t.Plan(s.view, of)
	if err == nil || errors.Is(err, trust.ErrUnknown) {
		return err == nil
	}
	s.membership.doubted = s.membership.doubted || trust.Doubtful(err)
	reason := text.Cut(err.Error(), maxReason)
	at.newest = at.attemptOfLocked(p)
	at.newest.failed = &round.Failed{Round: p.Round, Attempt: p.Attempt, Reason: reason, Code: round.CodeRefused}
	s.engine.cfg.Log.Warn("plan of a round refused; nothing was sent", "contract", s.contract, "round", p.Round, "attempt", p.Attempt, "why", err)
	signal(s.engine.toReport)
	return false
}

// contributionLocked is the number of the Sync whose weights this node contributes.
func (pr *program) contributionLocked() uint64 {
	if pr.closed || pr.offered == nil {
		return pr.lastSeq
	}
	return pr.offered.seq
}

// accepted are the sessions whose nodes this one shares models with. With unjudged some more may be, once Learn has asked for them.
func (ps *peers) accepted(sessions []*round.Session) (out []*round.Session, unjudged []error) {
	s := ps.s
	t := s.engine.cfg.Trust
	if t == nil {
		return sessions, nil
	}
	for _, m := range sessions {
		switch err := t.Peer(m); {
		case err == nil:
			out = append(out, m)
		case errors.Is(err, trust.ErrUnknown) || errors.Is(err, trust.ErrNotShown):
			unjudged = append(unjudged, err)
		}
	}
	return out, unjudged
}

// refusedLocked names the nodes that the leader should not plan with this one.
func (ps *peers) refusedLocked() []string {
	s := ps.s
	if t := s.engine.cfg.Trust; t != nil {
		return t.Refused(s.view.Sessions, s.engine.cfg.Peer)
	}
	return nil
}
