package client

import (
	"context"
	"fmt"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/forward"
)

// forwardWithin is how long a host has to connect to one of its members: it asks an SN for the operator's rights, and dials.
const forwardWithin = 15 * time.Second

// Connect opens a connection to a port of a member that runs on a host. Why the host opens none is a *forward.RefusedError.
func (d *Direct) Connect(ctx context.Context, at *swarmv1.Node, to forward.Target) (forward.Half, error) {
	if err := d.By.ready(ctx); err != nil {
		return nil, err
	}
	if at.GetFsPort() == 0 {
		return nil, fmt.Errorf("%s has no file server, by which it would be reached: start its SWOP with --swop-fs-port and a port that is free", at.GetName())
	}
	s, err := d.dial(ctx, at, identity.RoleSWOP, forward.Protocol, time.Now().Add(forwardWithin))
	if err != nil {
		return nil, fmt.Errorf("dial %s, which is its file server (swarmctl get ports): %w", at.GetName(), err)
	}
	if err := forward.Ask(s, to, forwardWithin); err != nil {
		_ = s.Reset()
		return nil, err
	}
	return s, nil
}
