// Package keeper keeps what an SN has beside the ledger, its history of rounds and what it has noticed: it has that written, shows it as the API
// does, and asks other SNs for what is lacking.
package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/internal/events"
	"github.com/swarmd/swarmd/internal/history"
)

// Keeper is an SN's history of rounds, or why it keeps none, and what it has noticed.
type Keeper struct {
	noticed  *noticing
	store    *history.Store // nil: nothing is kept
	recorder *history.Recorder
	none     error
	answers  chan struct{} // has room for as many answers to other SNs as are given at a time
}

// Open opens what an SN keeps in its state directory. Without one nothing is kept over a restart, nor where it can't be opened, which is said: an SN
// does its duties without a history. Run closes it.
func Open(name, stateDir string, group Group, log *slog.Logger) *Keeper {
	k := &Keeper{answers: make(chan struct{}, 2), noticed: &noticing{group: group, self: name, log: log, waits: map[string]hindrance{}}}
	if stateDir == "" {
		k.noticed.store = events.Open("", name, log)
		k.none = errors.New("no curves are kept: this SN has no state directory; start it with one")
		return k
	}
	k.noticed.store = events.Open(filepath.Join(stateDir, events.File), name, log)
	dir := filepath.Join(stateDir, history.Dir)
	store, err := history.Open(dir, history.Limits{}, log)
	if err != nil {
		log.Warn("curves are not kept: the history of rounds can't be opened; free space on its disk, or move the directory away, and start this SN again", "dir", dir, "err", err)
		k.none = fmt.Errorf("no curves are kept: this SN could not open %s when it started: %w; free space on its disk, or move the directory away, and start the SN again", dir, err)
		return k
	}
	k.store, k.recorder = store, history.NewRecorder(store, group, source{group}, log)
	return k
}

// Run keeps what there is until ctx ends, and closes the history.
func (k *Keeper) Run(ctx context.Context) error {
	if k.store == nil {
		return k.noticed.run(ctx)
	}
	defer k.store.Close()
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return k.recorder.Run(ctx) })
	tasks.Go(func() error { return k.noticed.run(ctx) })
	return tasks.Wait()
}

// Lead is a leader whose sessions' reports the history hears too.
type Lead struct {
	*planner.Planner

	recorder *history.Recorder
}

// Hearing returns the leader with the history listening. What its contracts wait for is noticed from then on.
func (k *Keeper) Hearing(leader *planner.Planner) Lead {
	k.noticed.lead.Store(leader)
	return Lead{leader, k.recorder}
}

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
	// other reports whether a run is of a contract of this name that was deleted.
	c := k.noticed.group.View().Contracts[q.GetContract()]
	other := func(run uint64) bool {
		return c != nil && run < c.Run && k.store.Before(q.GetContract(), run, c.CreatedMS)
	}
	part, err := k.store.Read(q.GetContract(), history.Query{Run: of, After: q.GetAfter(), Most: most, Spread: q.GetSpread()})
	if err != nil {
		return nil, err
	}
	if other(of) {
		part = history.Part{}
	}
	part.Run = of // also where nothing is kept of it
	out := messageOf(part)
	for _, earlier := range k.store.Runs(q.GetContract()) {
		if earlier < run && !other(earlier) {
			out.Earlier = append(out.Earlier, earlier)
		}
	}
	return out, nil
}
