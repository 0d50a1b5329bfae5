package rpc

import (
	"context"
	"sync"

	"github.com/swarmd/swarmd/consensus/state"
)

// enrol proposes a session, whose layout goes into the log only if its contract does not hold it. Of several that come at once
// with the same one, the first brings it while the others wait.
func (s *sessionService) enrol(ctx context.Context, open state.OpenSession) (state.Result, error) {
	if err := s.rates.TakeProposal(open.Node); err != nil {
		return state.Result{}, err
	}
	free, err := s.bringing.take(ctx, open.Contract+" "+open.Terms.LayoutDigest)
	if err != nil {
		return state.Result{}, err
	}
	if c := s.cfg.Core.View().Contracts[open.Contract]; c != nil && c.HoldsLayout(open.Terms.LayoutDigest) {
		free()
		bare := open
		bare.Terms.Layout = nil
		res, err := s.propose(ctx, bare)
		if state.ReasonOf(err) != state.ReasonLayoutAbsent { // else whoever held it has ended meanwhile
			return res, err
		}
	} else {
		defer free()
	}
	if err := s.rates.TakeLayout(open.Node, len(open.Terms.Layout)); err != nil {
		return state.Result{}, err
	}
	return s.propose(ctx, open)
}

// turns lets one caller a key go on at a time. The zero value is ready.
type turns struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed when the key is free
}

// take waits for the key's turn and returns what ends it.
func (t *turns) take(ctx context.Context, key string) (free func(), err error) {
	for {
		t.mu.Lock()
		taken := t.busy[key]
		if taken == nil {
			if t.busy == nil {
				t.busy = map[string]chan struct{}{}
			}
			done := make(chan struct{})
			t.busy[key] = done
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.busy, key)
				close(done)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-taken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
