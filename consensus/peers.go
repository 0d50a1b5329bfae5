package consensus

import (
	"context"
	"fmt"
	"net"

	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/raftnet"
)

// peers asks other SNs how they do; this one answers itself.
type peers struct {
	self  string // this server's address
	conns *peerconn.Pool
	stats func() serverStats // of this server
}

// fetchStats asks the server at an address.
func (p *peers) fetchStats(ctx context.Context, address string) (serverStats, error) {
	if address == p.self {
		return p.stats(), nil
	}
	s, err := ask[nothing, serverStats](ctx, p.conns, address, askStats, &nothing{})
	if err != nil {
		return serverStats{}, err
	}
	return *s, nil
}

// probe returns nil when a voter answers.
func (p *peers) probe(ctx context.Context, v quorum.Voter) error {
	_, err := p.fetchStats(ctx, v.ID)
	return err
}

// notifyHandOver tells a follower to whom this leader hands over; one that does not hear it votes when it finds the leader gone.
func (p *peers) notifyHandOver(ctx context.Context, address, successorID string) {
	_, _ = ask[handOver, nothing](ctx, p.conns, address, askHandOver, &handOver{successorID})
}

// dialer opens connections to other SNs, except to banned ones.
func dialer(r *replica, network Network) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if id, _, err := ParseAddress(address); err == nil {
			if err := r.view().CheckBan(id); err != nil {
				return nil, fmt.Errorf("dial %s: %w", address, err)
			}
		}
		return raftnet.DialSN(ctx, network, address, ProtocolRPC)
	}
}
