package keeper

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/history"
)

// Group is an SN's end of the group of SNs.
type Group interface {
	history.Swarm
	// Barrier waits until all is applied that was committed before.
	Barrier(ctx context.Context) error
	Leader() (name, address string, ok bool)
	// WithLeader calls try with a way to the API of the SN that leads, nil if that is this one.
	WithLeader(ctx context.Context, try func(ctx context.Context, way http.RoundTripper) error) error
	// Others returns ways to the other SNs, by name.
	Others() map[string]http.RoundTripper
}

const (
	// maxAnswer bounds what another SN says.
	maxAnswer = 8 << 20
	// maxQuestion bounds what another SN asks.
	maxQuestion = 4 << 10
	// beside is where an SN answers another what it has kept itself.
	beside = consensus.Beside + "GetHistory"
	// besideEvents is where it answers what it has noticed.
	besideEvents = consensus.Beside + "GetEvents"
)

// errBusy is said to an SN while others are answered.
var errBusy = errors.New("this SN answers other SNs just now; ask again later")

// source asks the SNs of a group.
type source struct{ group Group }

// Others implements history.Source.
func (s source) Others() []string { return slices.Sorted(maps.Keys(s.group.Others())) }

// Ask implements history.Source.
func (s source) Ask(ctx context.Context, sn, contract string, q history.Query) (part history.Part, ok bool, err error) {
	msg := &swarmv1.GetHistoryRequest{Contract: contract, After: q.After, Most: uint32(q.Most), Spread: q.Spread} //nolint:gosec // a page
	if sn != "" {
		way := s.group.Others()[sn]
		if way == nil {
			return part, false, nil // it was removed
		}
		client := connect.NewClient[swarmv1.GetHistoryRequest, swarmv1.GetHistoryResponse](&http.Client{Transport: way}, "http://sn"+beside, connect.WithReadMaxBytes(maxAnswer))
		res, err := client.CallUnary(ctx, connect.NewRequest(msg))
		if err != nil {
			return part, false, err
		}
		return FromPart(res.Msg), true, nil
	}
	if _, _, led := s.group.Leader(); !led {
		return part, false, nil
	}
	err = s.group.WithLeader(ctx, func(ctx context.Context, way http.RoundTripper) error {
		if ok = way != nil; !ok {
			return nil
		}
		req := connect.NewRequest(msg)
		view := s.group.View()
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

// Beside answers other SNs that ask what this one has kept, whether it leads or not, and has next answer all else.
func (k *Keeper) Beside(next http.Handler) http.Handler {
	rounds := answering(k.answers, beside, func(q *swarmv1.GetHistoryRequest) (*swarmv1.GetHistoryResponse, error) {
		if k.store == nil {
			return nil, connect.NewError(connect.CodeUnimplemented, k.none)
		}
		run, _ := k.store.Whole(q.GetContract())
		return k.Answer(q, run)
	})
	noticed := answering(k.answers, besideEvents, func(q *swarmv1.GetEventsRequest) (*swarmv1.GetEventsResponse, error) { return k.own(q), nil })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case beside:
			rounds.ServeHTTP(w, r)
		case besideEvents:
			noticed.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// answering answers a procedure by fn, as often at a time as there is room for.
func answering[Req, Res any](room chan struct{}, procedure string, fn func(*Req) (*Res, error)) http.Handler {
	return connect.NewUnaryHandler(procedure, func(_ context.Context, req *connect.Request[Req]) (*connect.Response[Res], error) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			return nil, connect.NewError(connect.CodeUnavailable, errBusy)
		}
		out, err := fn(req.Msg)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(out), nil
	}, connect.WithReadMaxBytes(maxQuestion))
}
