package client

import (
	"context"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/internal/delta"
)

// After so many updates that did not fit, views are asked for as they are: the SN and this client do not understand each other.
const maxMisfits = 2

// WatchContract calls fn with the contract's view, first the current one and then each newer one, until ctx ends, the
// contract is refused, or fn returns an error, which is returned as it is. It changes SNs by itself, also when other
// calls of this client do. A view that is older than one seen before is dropped, so that fn does not see the contract go back,
// unless SNs lag behind that one for long and none confirms it: what one SN says must not make this node deaf to all others.
// Views share memory, so fn must not modify them. fn runs on the caller's goroutine; views are skipped, not queued, while it runs long.
func (c *Client) WatchContract(ctx context.Context, contract string, fn func(*swarmv1.ContractView) error) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	w := &watch{newest: newest{client: c}, contract: contract, fn: fn}
	for {
		err := c.try(ctx, callOptions{asNode: true}, w.stream)
		if w.err != nil {
			return w.err
		}
		if err != nil {
			return err
		}
	}
}

type watch struct {
	newest

	contract string
	fn       func(*swarmv1.ContractView) error
	views    delta.Decoder // of the stream
	seen     *swarmv1.ContractView
	misfits  int   // how many updates did not fit the view before them
	err      error // what fn returned: ends everything
}

// stream follows one SN. It returns nil when the stream is to be opened anew, at once, on the client's SN of then.
func (w *watch) stream(ctx context.Context, sn string) error {
	return followStream(ctx, w.client, sn, w.open, w.take)
}

// misfit has the whole view asked for, of the same SN at first.
func (w *watch) misfit(sn string, err error) error {
	w.misfits++
	w.client.cfg.Log.Warn("an SN sent a view that could not be rebuilt: the whole view is asked for", "sn", sn, "contract", w.contract, "err", err)
	if w.misfits <= maxMisfits {
		return errAnew
	}
	return err
}

// open begins a stream: of packed views, unless those did not fit repeatedly.
func (w *watch) open(ctx context.Context, s *stubs) (*connect.ServerStreamForClient[swarmv1.ContractView], error) {
	w.views = delta.Decoder{}
	via, packed := s.watch, w.misfits < maxMisfits
	if !packed {
		via = service[swarmv1connect.SessionServiceClient](s, false)
	}
	req := connect.NewRequest(&swarmv1.WatchContractRequest{Contract: w.contract, Packed: packed})
	w.client.setHeaders(req.Header(), callOptions{asNode: true})
	return via.WatchContract(ctx, req)
}

// take hands on a view that is newer. What fn returned is in w.err.
func (w *watch) take(sn string, m *swarmv1.ContractView, lagging time.Duration) (bool, error) {
	v, err := w.views.View(m)
	if err != nil {
		return false, w.misfit(sn, err)
	}
	news, heard, err := w.judge(sn, func() int { return newer(v, w.seen) }, lagging)
	if err != nil || !news {
		return heard, err
	}
	w.seen = v
	if w.err = w.fn(v); w.err != nil {
		return true, errAnew
	}
	return true, nil
}

// newer compares a view with the newest one seen: 1 newer, 0 the same, -1 older. The raft index is the swarm's, so it
// compares across SNs; what was committed is compared too, so that nothing a program has seen is ever taken back.
func newer(got, seen *swarmv1.ContractView) int {
	if seen == nil {
		return 1
	}
	for _, p := range [][2]uint64{
		{got.GetRun(), seen.GetRun()},
		{got.GetCommitted().GetRound(), seen.GetCommitted().GetRound()},
	} {
		if p[0] != p[1] {
			return order(p[0], p[1])
		}
	}
	g, s := got.GetPlan(), seen.GetPlan()
	if g != nil && s != nil && g.GetAttempt() < s.GetAttempt() {
		return -1
	}
	return order(got.GetIndex(), seen.GetIndex())
}

func order(a, b uint64) int {
	switch {
	case a > b:
		return 1
	case a < b:
		return -1
	default:
		return 0
	}
}
