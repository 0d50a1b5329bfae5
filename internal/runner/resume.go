package runner

import (
	"context"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/session"
)

// Resume brings what an earlier run of this node left in order: its program's session goes on if the program lives on, and
// everything else is ended and removed. It reports whether training was finished, so that no program is to be started.
func (r *Runner) Resume(ctx context.Context, api Swarm, engine *session.Engine, to Bridge) (finished bool, err error) {
	saved, err := r.left(ctx, api)
	if err != nil {
		return false, err
	}
	if err := to.Claim(saved != nil); err != nil {
		return false, err
	}
	if r.containers != nil {
		if err := r.containers.clean(ctx); err != nil {
			return false, err
		}
	}
	kept := ""
	if saved != nil {
		engine.Resume(saved)
		if engine.Live(saved.ID) {
			weight, most := saved.Weights()
			to.Resume(saved.ID, saved.LayoutDigest(), weight, most)
		}
		if engine.Live(saved.ID) || saved.Finished {
			kept = saved.ID
		}
	}
	finished = saved != nil && r.containers.found == nil
	r.EndOrphans(ctx, api, kept, finished)
	return finished, nil
}

// Abandon ends what is left of an earlier run when the node is stopped before it could resume that: a stopped node leaves no program
// behind.
func (r *Runner) Abandon(ctx context.Context) {
	if r.containers != nil {
		r.containers.stopPrevious(ctx)
	}
}

// Note keeps how the program ended, or that it was stopped, for the next run of the daemon.
func (r *Runner) Note(outcome session.Outcome, code int, stopped bool) {
	if r.containers != nil {
		r.containers.note(outcome, code, stopped)
	}
}

// left is the session to be adopted, nil if there is none.
func (r *Runner) left(ctx context.Context, api Swarm) (*session.Saved, error) {
	c := r.containers
	if c == nil {
		return nil, nil
	}
	saved, err := c.find(ctx)
	if err != nil || saved == nil || c.found != nil || r.over(ctx, api, saved) {
		return saved, err
	}
	c.journal.Forget() // the contract was reset, or made anew: there is something to train again
	c.done = false
	return nil, nil
}

// over reports whether the training of a finished session is still the contract's last. That of a contract that was deleted is: who
// deletes it does not want it to come back with each node that is started again.
func (r *Runner) over(ctx context.Context, api Swarm, saved *session.Saved) bool {
	return r.standing(ctx, api, saved.Contract, saved.Run) >= runOver
}

// How a run that this node has finished stands.
const (
	runPast    = iota // there is another one, or nobody says
	runOver           // it is the contract's last
	runDeleted        // … and the contract was deleted
)

func (r *Runner) standing(ctx context.Context, api Swarm, contract string, run uint64) int {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	status, err := api.GetContractStatus(ctx, contract)
	switch {
	case client.Reason(err) == state.ReasonContractAbsent:
		return runDeleted
	case err != nil:
		r.cfg.Log.Warn("could not find out whether the training that this node finished is still the contract's last", "contract", contract, "err", err)
	case status.GetContract().GetOver() && status.GetContract().GetRun() == run:
		return runOver
	}
	return runPast
}

// Stay serves the final model of a training that an earlier run of the daemon finished to those who still want it.
func (r *Runner) Stay(ctx context.Context, engine *session.Engine) {
	r.SayFinished(r.containers.journal.Record().Session.Contract)
	r.linger(ctx, engine)
}

// SayFinished logs that there is nothing to train in a contract.
func (r *Runner) SayFinished(contract string) {
	r.cfg.Log.Info("training is finished already: this node has the final model, and there is nothing to do; swarmctl reset contract begins a new training, or create contract if it was deleted",
		"contract", contract)
}
