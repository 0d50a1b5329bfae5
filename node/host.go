package node

import (
	"context"

	"github.com/swarmd/swarmd/internal/p2p"
)

// libp2p is the Host of this machine.
type libp2p struct{ *p2p.Host }

func openLibp2p(cfg p2p.Config) (Host, error) {
	h, err := p2p.NewHost(cfg)
	if err != nil {
		return nil, err
	}
	return libp2p{h}, nil
}

// Handle implements Host.
func (l libp2p) Handle(protocol string, policy p2p.Policy, fn func(ctx context.Context, s Stream)) {
	l.Host.Handle(protocol, policy, func(ctx context.Context, s *p2p.Stream) { fn(ctx, s) })
}

// Dial implements Host.
func (l libp2p) Dial(ctx context.Context, to p2p.Addr, protocol string, dedicated bool, fits func(p2p.Peer) error) (Stream, error) {
	open := l.DialFit
	if dedicated {
		open = l.DialDedicated
	}
	s, err := open(ctx, to, protocol, fits)
	if err != nil {
		return nil, err // never a nil *Stream in an interface
	}
	return s, nil
}
