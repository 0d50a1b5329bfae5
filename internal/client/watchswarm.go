package client

import (
	"context"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
)

// WatchSwarm calls fn at once and whenever the swarm's state has changed, until ctx ends or the caller is refused. It changes SNs by itself,
// and calls fn then too. An SN of an earlier version has no such method, which is an error. fn runs on the caller's goroutine; changes are
// skipped, not queued, while it runs long.
func (c Operator) WatchSwarm(ctx context.Context, fn func()) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	w := &swarmWatch{newest: newest{client: c.Client}, fn: fn}
	for {
		if err := c.try(ctx, callOptions{}, w.follow); err != nil {
			return err
		}
	}
}

type swarmWatch struct {
	newest

	fn    func()
	index uint64 // of the state that was told of last
	told  string // the SN that did
}

// follow follows one SN. It returns nil when the stream is to be opened anew, at once, on the client's SN of then.
func (w *swarmWatch) follow(ctx context.Context, sn string) error {
	return followStream(ctx, w.client, sn, w.open, w.take)
}

func (w *swarmWatch) open(ctx context.Context, s *stubs) (*connect.ServerStreamForClient[swarmv1.SwarmChange], error) {
	req := connect.NewRequest(&swarmv1.WatchSwarmRequest{})
	w.client.setHeaders(req.Header(), callOptions{})
	return service[swarmv1connect.SwarmServiceClient](s, false).WatchSwarm(ctx, req)
}

// take tells of a state that is newer, or of another SN's.
func (w *swarmWatch) take(sn string, m *swarmv1.SwarmChange, lagging time.Duration) (bool, error) {
	news, heard, err := w.judge(sn, func() int { return order(m.GetIndex(), w.index) }, lagging)
	if err != nil || !heard || !news && sn == w.told {
		return heard, err
	}
	w.index, w.told = m.GetIndex(), sn
	w.fn()
	return true, nil
}
