package node

import (
	"context"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/session"
)

// takeUp brings what an earlier life of this node left in order: its program's session is taken up if the program lives on,
// and everything else is ended and removed. It tells whether training was finished, so that no program is to be started.
func (s *sl) takeUp(ctx context.Context, api *client.Client, p *parts) (finished bool, err error) {
	saved, err := s.left(ctx, api)
	if err != nil {
		return false, err
	}
	if err := p.bridge.Claim(saved != nil); err != nil {
		return false, err
	}
	if s.containers != nil {
		s.containers.clean(ctx)
	}
	kept := ""
	if saved != nil {
		p.engine.Resume(saved)
		if p.engine.Live(saved.ID) {
			p.bridge.Resume(saved.ID, saved.LayoutDigest(), saved.Weight())
		}
		if p.engine.Live(saved.ID) || saved.Finished {
			kept = saved.ID
		}
	}
	finished = saved != nil && s.containers.found == nil
	s.endLeftovers(ctx, api, kept, finished)
	return finished, nil
}

// left is the session to be taken up, nil if there is none.
func (s *sl) left(ctx context.Context, api *client.Client) (*session.Saved, error) {
	c := s.containers
	if c == nil {
		return nil, nil
	}
	saved, err := c.look(ctx)
	if err != nil || saved == nil || c.found != nil || s.over(ctx, api, saved) {
		return saved, err
	}
	c.journal.Forget() // the contract was reset, or made anew: there is something to train again
	return nil, nil
}

// over tells whether the training of a finished session is still the contract's last. That of a contract that was deleted is: who
// deletes it does not want it to come back with each node that is started again.
func (s *sl) over(ctx context.Context, api *client.Client, saved *session.Saved) bool {
	return s.standing(ctx, api, saved.Contract, saved.Run) >= runOver
}

// How a run that this node has finished stands.
const (
	runPast    = iota // there is another one, or nobody says
	runOver           // it is the contract's last
	runDeleted        // … and the contract was deleted
)

func (s *sl) standing(ctx context.Context, api *client.Client, contract string, run uint64) int {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	status, err := api.GetContractStatus(ctx, contract)
	switch {
	case client.Reason(err) == state.ReasonContractAbsent:
		return runDeleted
	case err != nil:
		s.cfg.Log.Warn("look whether the training that this node finished is still the contract's last", "contract", contract, "err", err)
	case status.GetContract().GetOver() && status.GetContract().GetRun() == run:
		return runOver
	}
	return runPast
}

// stay serves the final model of a training that an earlier life finished to those who still want it.
func (s *sl) stay(ctx context.Context, p *parts) {
	s.sayFinished(s.containers.journal.Record().Session.Contract)
	linger(ctx, s.cfg, p.engine)
}

func (s *sl) sayFinished(contract string) {
	s.cfg.Log.Info("training is finished already: this node has the final model, and there is nothing to do; swarmctl reset contract begins a new training, or create contract if it was deleted",
		"contract", contract)
}
