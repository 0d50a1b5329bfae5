package logboard

import (
	"context"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/logs"
)

// Own joins an SN with the board on which its own log is asked for: the SN is a host beside it.
type Own struct {
	Node  string
	Board *Board
}

// again is how often an SN is shown what it has not answered.
const again = time.Second

// Send brings the board what the SN hands out.
func (o *Own) Send(_ context.Context, req *swarmv1.SendLogsRequest) (*swarmv1.SendLogsResponse, error) {
	return o.Board.Send(o.Node, req)
}

// Run shows the SN what is asked for, and has it answer, until ctx ends. It returns nil.
func (o *Own) Run(ctx context.Context, host *logs.Host) error {
	var answers sync.WaitGroup
	answers.Go(func() { _ = host.Run(ctx) }) // it never fails
	defer answers.Wait()
	var later <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.Board.news:
		case <-later:
		}
		later = nil
		if orders := o.Board.Of(o.Node); len(orders) > 0 {
			host.Take(orders)
			later = time.After(again)
		}
	}
}
