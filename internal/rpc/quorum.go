package rpc

import (
	"context"
	"errors"

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
