package runner

import (
	"context"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
)

// EndOrphans ends the sessions that a previous run of this node left open, but the one that is adopted: their program died
// with the daemon, and the others would wait for it. Those of trainings that are over stay until the program that is started has
// fetched the final model, unless none is started, as this node has finished. It only helps the others along, so what goes wrong is
// logged.
func (r *Runner) EndOrphans(ctx context.Context, api Swarm, kept string, finished bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	contracts, err := api.ListContracts(ctx)
	for _, c := range contracts.GetContracts() {
		if c.OpenSessions == 0 {
			continue
		}
		var status *swarmv1.GetContractStatusResponse
		if status, err = api.GetContractStatus(ctx, c.Name); err != nil {
			break
		}
		for _, m := range status.Contract.GetSessions() {
			if m.Node != r.cfg.Node || m.State == "ended" || m.Id == kept {
				continue
			}
			if status.Contract.Over && !finished { // the others wait for the final model to be fetched: a new session replaces it
				continue
			}
			r.cfg.Log.Info("ending the session of this node's previous run", "contract", c.Name, "session", m.Id)
			err = api.EndSession(ctx, &swarmv1.EndSessionRequest{
				Session: m.Id, Contract: c.Name, Run: status.Contract.Run, Reason: state.EndRestarted, ExitCode: 1,
			})
		}
	}
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("could not look for sessions of this node's previous run", "err", err)
	}
}
