// Package keeper keeps an SN's history of rounds: it has it written, shows it as the API does, and asks the SN that leads for what is lacking.
package keeper

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/history"
)

// Keeper is an SN's history of rounds; an empty one keeps nothing.
type Keeper struct {
	store    *history.Store
	recorder *history.Recorder
}

// Open opens the history in an SN's state directory; without one nothing is kept. Run closes it.
func Open(stateDir string, group Group, log *slog.Logger) (*Keeper, error) {
	if stateDir == "" {
		return &Keeper{}, nil
	}
	store, err := history.Open(filepath.Join(stateDir, history.Dir), history.Limits{}, log)
	if err != nil {
		return nil, err
	}
	return &Keeper{store, history.NewRecorder(store, group, asking(group), log)}, nil
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

// Record takes what a session reports.
func (l Lead) Record(r reports.Report) {
	if l.recorder != nil {
		l.recorder.Observe(r)
	}
	l.Planner.Record(r)
}

// maxPoints bounds the rounds of one answer.
const maxPoints = 10_000

// Answer shows what is kept of a contract's run.
func (k *Keeper) Answer(q *swarmv1.GetHistoryRequest, run uint64) (*swarmv1.GetHistoryResponse, error) {
	if k.store == nil {
		return nil, errors.New("no history of rounds is kept: this SN has no state directory")
	}
	most := int(min(q.GetMost(), maxPoints))
	if most == 0 {
		most = maxPoints
	}
	part, err := k.store.Read(q.GetContract(), history.Query{After: q.GetAfter(), Most: most, Spread: q.GetSpread()})
	if err != nil {
		return nil, err
	}
	if part.Run != run { // of one that was reset just now
		part = history.Part{Run: run}
	}
	return messageOf(part), nil
}

// Group is an SN's end of the group of SNs.
type Group interface {
	View() *state.State
	Changed() <-chan struct{}
	LedgerAfter(n uint64) ([]byte, error)
	LeaderSeen() time.Time
	Leader() (name, address string, ok bool)
	// WithLeader calls try with a way to the API of the SN that leads, nil if that is this one.
	WithLeader(ctx context.Context, try func(ctx context.Context, way http.RoundTripper) error) error
}

// maxAnswer bounds what the SN that leads says.
const maxAnswer = 8 << 20

// asking returns what asks the SN that leads.
func asking(group Group) history.Ask {
	return func(ctx context.Context, contract string, q history.Query) (part history.Part, ok bool, err error) {
		if _, _, led := group.Leader(); !led {
			return part, false, nil
		}
		err = group.WithLeader(ctx, func(ctx context.Context, way http.RoundTripper) error {
			if ok = way != nil; !ok {
				return nil
			}
			req := connect.NewRequest(&swarmv1.GetHistoryRequest{Contract: contract, After: q.After, Most: uint32(q.Most), Spread: q.Spread}) //nolint:gosec // a page
			view := group.View()
			req.Header().Set("Swarm-Id", epoch.Of(view.SwarmID, view.Recoveries).String())
			res, err := swarmv1connect.NewContractServiceClient(&http.Client{Transport: way}, "http://sn", connect.WithReadMaxBytes(maxAnswer)).GetHistory(ctx, req)
			if err != nil {
				return err
			}
			part = FromPart(res.Msg)
			return nil
		})
		return part, ok, err
	}
}
