package consensus

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/swarmd/swarmd/consensus/state"
)

// AskRaw proposes an encoded command on a forward stream, and returns why it was not accepted.
func AskRaw(conn net.Conn, command []byte) error {
	if err := writeFrame(conn, new(sync.Mutex), frame{id: 1, kind: framePropose, body: command}); err != nil {
		return err
	}
	f, err := readFrame(conn)
	if err == nil && f.kind != frameOK {
		err = errors.New(string(f.body))
	}
	return err
}

// MayForward tells whether the leader takes a command from another SN.
func MayForward(c state.Command) bool { return mayForward(c) }

// HoldConfiguration takes the right to change the configuration until release is called.
func HoldConfiguration(g *Group) (release func()) {
	g.joining <- struct{}{}
	return g.release
}

// Allows tells whether the group takes raft and forward streams of a peer.
func Allows(g *Group, p Peer) bool { return g.allow(p) }

// AskJoin sends one join and returns its answer.
func AskJoin(ctx context.Context, g *Group, address string, req JoinRequest) (JoinResponse, error) {
	return g.askJoin(ctx, address, req)
}
