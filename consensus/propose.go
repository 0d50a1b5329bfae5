package consensus

import (
	"context"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// Bounds of the pause between two tries.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Propose commits a command on this server while it leads, after [Config.Vet], and returns when it was applied here. A server
// that does not lead, or loses leadership too early, returns ErrNotLeader. The command may have been committed all the same: a
// second one has no effect. A rejection by the state is returned as *state.Error.
func (g *Group) Propose(ctx context.Context, c state.Command) (state.Result, error) {
	data, err := state.EncodeCommand(c)
	if err == nil {
		// What does not decode, as a text that is no UTF-8, must not reach the log, where it would halt every node for good.
		_, err = state.DecodeCommand(data)
	}
	if err != nil {
		return state.Result{}, fmt.Errorf("propose: %w", err)
	}
	if !g.replica.elected() {
		return state.Result{}, ErrNotLeader
	}
	if data, c, err = vetted(g, data, c); err != nil {
		return state.Result{}, err
	}
	var a applied
	if out := g.members.leaving(c); out != "" {
		if !g.IsLeader() { // who is a server, and who must not be, may not be known here yet
			return state.Result{}, ErrNotLeader
		}
		a, err = g.members.proposeWithout(ctx, out, c, data)
	} else {
		a, err = g.replica.propose(ctx, data)
	}
	return a.result, err
}

// ProposeAsLeader is Propose on the leader alone. A leader's decision may rest on what only it knows, such as which nodes it
// heard from, so it must not reach the log of another leader. It tries once; ErrNotLeader means that this server does not lead,
// or lost leadership.
func (g *Group) ProposeAsLeader(ctx context.Context, c state.Command) (state.Result, error) {
	data, err := state.EncodeCommand(c)
	if err == nil {
		_, err = state.DecodeCommand(data)
	}
	if err != nil {
		return state.Result{}, fmt.Errorf("propose: %w", err)
	}
	if !g.IsLeader() {
		return state.Result{}, ErrNotLeader
	}
	a, err := g.replica.propose(ctx, data)
	return a.result, err
}

// Barrier waits until this node has applied everything that was committed anywhere before the call: a View taken
// afterwards is linearizable. It costs the leader one round of heartbeats and no log entry.
func (g *Group) Barrier(ctx context.Context) error {
	var index uint64
	err := g.contact.retry(ctx, func(ctx context.Context, leader string) (err error) {
		if leader == g.replica.address {
			index, err = g.replica.readIndex(ctx)
			return err
		}
		answer, err := ask[nothing, indexAnswer](ctx, g.peers.conns, leader, askRead, &nothing{})
		if err == nil {
			index = answer.Index
		}
		return err
	})
	if err != nil {
		return err
	}
	return g.replica.wait(ctx, index)
}

// vetted is what the leader proposes when it is asked for a command, whose encoded form is data.
func vetted(g *Group, data []byte, c state.Command) ([]byte, state.Command, error) {
	if g.cfg.Vet == nil {
		return data, c, nil
	}
	if !g.replica.elected() {
		return nil, nil, ErrNotLeader
	}
	c, err := g.cfg.Vet(c)
	if err == nil {
		data, err = state.EncodeCommand(c)
	}
	return data, c, err
}
