package consensus

import (
	"context"

	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/state"
)

// AskPassedJoin sends, on the connections of an SN, a join as if it were passed on from a peer.
func AskPassedJoin(ctx context.Context, conns *peerconn.Pool, address string, from Peer, r JoinRequest) (JoinResponse, error) {
	resp, err := ask[joinPassed, JoinResponse](ctx, conns, address, askJoin, &joinPassed{Peer: from, Request: r})
	if err != nil {
		return JoinResponse{}, err
	}
	return *resp, nil
}

// AskStats asks on the connections of an SN how far another one's log is.
func AskStats(ctx context.Context, conns *peerconn.Pool, address string) error {
	_, err := ask[nothing, serverStats](ctx, conns, address, askStats, &nothing{})
	return err
}

// HoldConfiguration takes the right to change the configuration until release is called.
func HoldConfiguration(g *Group) (release func()) {
	g.members.joining <- struct{}{}
	return g.members.release
}

// Allows reports whether the group takes raft messages and requests of a peer.
func Allows(g *Group, p Peer) bool { return g.endpoint.allow(p) }

// AskJoin sends one join and returns its answer.
func AskJoin(ctx context.Context, g *Group, address string, req JoinRequest) (JoinResponse, error) {
	return g.joiner.askJoin(ctx, address, req)
}

// ProposeBare has the leader commit a command and do nothing else of what the command asks for.
func ProposeBare(g *Group, c state.Command) error {
	data, err := state.EncodeCommand(c)
	if err == nil {
		_, err = g.replica.propose(context.Background(), data)
	}
	return err
}
