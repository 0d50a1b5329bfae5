package rpc

import (
	"context"
	"errors"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/quorum"
)

// lost says that too few SNs answer this one, or is nil. It blocks for some seconds at most, and not while there is a leader.
func (s *shared) lost(ctx context.Context) *quorum.Error {
	if s.cfg.Quorum == nil {
		return nil
	}
	e, _ := errors.AsType[*quorum.Error](s.cfg.Quorum(ctx))
	return e
}

// leaderless is the error of a call that needs what a leader alone could tell, while there is none.
func (s *shared) leaderless(ctx context.Context) error {
	if e := s.lost(ctx); e != nil {
		return e
	}
	return consensus.ErrNoLeader
}

// noQuorum goes with an answer from this SN's own copy of the state; nil: the copy is as good as any.
func (s *shared) noQuorum(e *quorum.Error) *swarmv1.NoQuorum {
	if e == nil {
		return nil
	}
	out := &swarmv1.NoQuorum{Message: e.Error(), Remedy: e.Remedy(), Sn: s.cfg.Name}
	if !e.LeaderSeen.IsZero() {
		out.LeaderSeenUnixMs = e.LeaderSeen.UnixMilli()
	}
	for _, v := range e.Answer {
		out.Answering = append(out.Answering, v.Name)
	}
	for _, v := range e.Missing {
		out.Missing = append(out.Missing, &swarmv1.MissingSN{Name: v.Name, Address: v.Address})
	}
	return out
}
