package ranks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/pause"
)

// ask asks for the other ranks of start n, beside none of a start before. It goes on until an SN answers or ctx ends: hosts that are away from their swarm
// are no reason to give a training up.
func (s *supervised) ask(ctx context.Context, port, n int) (x *planned, a *swarmv1.Assignment, err error) {
	p := s.Program
	p.Hosts = s.willing(p.Hosts)
	if x, err = p.plan(port, n); err != nil {
		return nil, nil, fmt.Errorf("make the job of the other ranks: %w", err)
	}
	x.avoid = s.avoid
	for said := false; ; said = true {
		if a, err = s.askOnce(ctx, x); !unanswered(err) {
			return x, a, err
		}
		if !said {
			s.Log.Warn("no SN answers: the other ranks are asked for again until one does", "err", err)
		}
		if pause.For(ctx, look) != nil {
			return nil, nil, err
		}
	}
}

// askOnce may be called again, however far it came: what an assignment of which no answer came has started is ended first.
func (s *supervised) askOnce(ctx context.Context, x *planned) (*swarmv1.Assignment, error) {
	if err := s.clear(ctx); err != nil {
		return nil, fmt.Errorf("end the ranks of a start before: %w", err)
	}
	if err := x.write(ctx, s.api); err != nil {
		return nil, fmt.Errorf("make the job of the other ranks: %w", err)
	}
	a, err := x.assign(ctx, s.api, time.Now())
	if err != nil {
		return nil, fmt.Errorf("start the other ranks: %w", err)
	}
	return a, nil
}

// unanswered reports whether an error says nothing of what was asked, which another SN, or the same one later, may do.
func unanswered(err error) bool {
	e, is := errors.AsType[*client.Error](err)
	return is && (e.Code == connect.CodeUnavailable || e.Code == connect.CodeDeadlineExceeded)
}
