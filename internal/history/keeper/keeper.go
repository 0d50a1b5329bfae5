// Package keeper keeps an SN's history of rounds: it has it written, shows it as the API does, and asks other SNs for what is lacking.
package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/internal/history"
)

// Keeper is an SN's history of rounds, or why it keeps none.
type Keeper struct {
	store    *history.Store // nil: nothing is kept
	recorder *history.Recorder
	none     error
	answers  chan struct{} // has room for as many answers to other SNs as are given at a time
}

// Open opens the history in an SN's state directory. Without one nothing is kept, nor where it can't be opened, which is said: an SN does its
// duties without a history. Run closes it.
func Open(stateDir string, group Group, log *slog.Logger) *Keeper {
	if stateDir == "" {
		return &Keeper{none: errors.New("no curves are kept: this SN has no state directory; start it with one")}
	}
	dir := filepath.Join(stateDir, history.Dir)
	store, err := history.Open(dir, history.Limits{}, log)
	if err != nil {
		log.Warn("curves are not kept: the history of rounds can't be opened; free space on its disk, or move the directory away, and start this SN again", "dir", dir, "err", err)
		return &Keeper{none: fmt.Errorf("no curves are kept: this SN could not open %s when it started: %w; free space on its disk, or move the directory away, and start the SN again", dir, err)}
	}
	return &Keeper{store: store, recorder: history.NewRecorder(store, group, source{group}, log), answers: make(chan struct{}, 2)}
}

// Run records until ctx ends, and closes the history.
func (k *Keeper) Run(ctx context.Context) error {
	if k.store == nil {
		return nil
	}
	defer k.store.Close()
	return k.recorder.Run(ctx)
}

// Lead is a leader whose sessions' reports the history hears too.
type Lead struct {
	*planner.Planner

	recorder *history.Recorder
}

// Hearing returns the leader with the history listening.
func (k *Keeper) Hearing(leader *planner.Planner) Lead { return Lead{leader, k.recorder} }

// Record takes what a session reports. The history hears what is not older than what the session said before.
func (l Lead) Record(r reports.Report) bool {
	counts := l.Planner.Record(r)
	if counts && l.recorder != nil {
		l.recorder.Observe(r)
	}
	return counts
}

// maxPoints bounds the rounds of one answer.
const maxPoints = 10_000

// Answer shows what is kept of a contract, whose current run is given: of that, or of the one that is asked for.
func (k *Keeper) Answer(q *swarmv1.GetHistoryRequest, run uint64) (*swarmv1.GetHistoryResponse, error) {
	if k.store == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, k.none)
	}
	most := int(min(q.GetMost(), maxPoints))
	if most == 0 {
		most = maxPoints
	}
	of := cmp.Or(q.GetRun(), run)
	part, err := k.store.Read(q.GetContract(), history.Query{Run: of, After: q.GetAfter(), Most: most, Spread: q.GetSpread()})
	if err != nil {
		return nil, err
	}
	part.Run = of // also where nothing is kept of it
	out := messageOf(part)
	for _, earlier := range k.store.Runs(q.GetContract()) {
		if earlier < run {
			out.Earlier = append(out.Earlier, earlier)
		}
	}
	return out, nil
}
