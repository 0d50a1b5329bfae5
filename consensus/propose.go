package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/snlink"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// Bounds of the pause between two tries.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Propose has a command committed by this server while it leads, after [Config.Vet], and returns when it was applied here. A server
// that does not lead, or not long enough, returns ErrNotLeader, and then it may have been committed all the same: commands are
// made so that a second one has no effect. A rejection by the state is returned as *state.Error.
func (g *Group) Propose(ctx context.Context, c state.Command) (state.Result, error) {
	data, err := state.EncodeCommand(c)
	if err == nil {
		// What does not decode, as a text that is no UTF-8, must not reach the log, where it would halt every node for good.
		_, err = state.DecodeCommand(data)
	}
	if err != nil {
		return state.Result{}, fmt.Errorf("propose: %w", err)
	}
	if g.raft.State() != raft.Leader {
		return state.Result{}, ErrNotLeader
	}
	if data, c, err = g.vetted(data, c); err != nil {
		return state.Result{}, err
	}
	var a applied
	if out := g.leavingOf(c); out != "" {
		if !g.IsLeader() { // who is a server, and who must not be, may not be known here yet
			return state.Result{}, ErrNotLeader
		}
		a, err = g.proposeWithout(ctx, out, c, data)
	} else {
		a, err = g.proposeLocal(ctx, data)
	}
	return a.result, err
}

// leavingOf returns the node key whose server is to leave the configuration before a command: of a ban, and of an SN that is
// forgotten.
func (g *Group) leavingOf(c state.Command) (peerID string) {
	switch c := c.(type) {
	case state.BanNode:
		return c.PeerID
	case state.ForgetNode:
		if n := g.View().Nodes[c.Node]; n != nil && n.Role == naming.RoleSN {
			return n.PeerID
		}
	}
	return ""
}

// ProposeAsLeader is Propose on the leader alone: what a leader decides from what only it knows, such as who was heard of,
// must not reach another leader's log because leadership was lost on the way. It tries once; ErrNotLeader says that this
// server does not lead, or did not lead long enough.
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
	a, err := g.proposeLocal(ctx, data)
	return a.result, err
}

// Barrier waits until this node has applied everything that was committed anywhere before the call: a View taken
// afterwards is linearizable. It costs the leader one round of heartbeats and no log entry.
func (g *Group) Barrier(ctx context.Context) error {
	var index uint64
	err := g.retry(ctx, func(ctx context.Context, leader string) (err error) {
		if leader == g.cfg.Address {
			index, err = g.readIndex(ctx)
			return err
		}
		answer, err := ask[nothing, indexAnswer](ctx, g.links, leader, askRead, &nothing{})
		if err == nil {
			index = answer.Index
		}
		return err
	})
	if err != nil {
		return err
	}
	return g.wait(ctx, index)
}

// retry calls try with the leader's address until it succeeds or fails for a reason that another try can't mend. Once there has
// been no leader for a while, it counts the voters that answer.
func (g *Group) retry(ctx context.Context, try func(ctx context.Context, leader string) error) error {
	pause := minBackoff
	last := ErrNoLeader
	for {
		if _, leader, ok := g.Leader(); ok {
			err := try(ctx, leader)
			if err == nil || !passing(err) {
				return err
			}
			if ctx.Err() == nil {
				last = err
			}
		} else if g.leaderless() {
			if counted, ok := errors.AsType[*quorum.Error](g.count(ctx)); ok {
				if last = counted; !counted.Majority() {
					return counted
				}
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if errors.Is(last, ErrNoLeader) {
				return fmt.Errorf("%w: %w", last, ctx.Err())
			}
			return fmt.Errorf("%w (last: %w): %w", ErrNoLeader, last, ctx.Err())
		case <-g.stopped:
			timer.Stop()
			return ErrShutdown
		}
		pause = min(2*pause, maxBackoff)
	}
}

// passing tells whether an error may be gone at the next try, with the same or another leader.
func passing(err error) bool {
	if _, rejected := errors.AsType[*state.Error](err); rejected {
		return false
	}
	return errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoLeader) || errors.Is(err, snlink.ErrLost) ||
		errors.Is(err, ErrShutdown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// vetted is what the leader proposes when it is asked for a command, whose encoded form is data.
func (g *Group) vetted(data []byte, c state.Command) ([]byte, state.Command, error) {
	if g.cfg.Vet == nil {
		return data, c, nil
	}
	if g.raft.State() != raft.Leader {
		return nil, nil, ErrNotLeader
	}
	c, err := g.cfg.Vet(c)
	if err == nil {
		data, err = state.EncodeCommand(c)
	}
	return data, c, err
}

// proposeLocal has an encoded command committed by this server, the leader.
func (g *Group) proposeLocal(ctx context.Context, data []byte) (applied, error) {
	if g.raft.State() != raft.Leader {
		return applied{}, ErrNotLeader
	}
	var a applied
	err := g.await(ctx, func() error {
		future := g.raft.Apply(data, 0)
		if err := future.Error(); err != nil {
			return fromRaft(err)
		}
		var ok bool
		if a, ok = future.Response().(applied); !ok {
			return errors.New("propose: raft returned no result")
		}
		return a.err
	})
	if err != nil {
		return applied{}, err
	}
	select {
	case g.news <- struct{}{}:
	default:
	}
	return a, nil
}

// spreadLoop tells followers at once that a command is committed. Raft itself tells them with the next entry, or when
// it has been idle for Timing.Commit; a round waits for that twice. So an empty entry follows each burst of commands.
func (g *Group) spreadLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.news:
		}
		if g.IsLeader() && len(g.Servers()) > 1 {
			_ = g.await(ctx, func() error { return g.raft.Barrier(0).Error() }) // only a hint: the next one says it too
		}
	}
}

// await runs a blocking call of raft's, which knows no context. When ctx or the group ends first the call is left to
// end by itself: raft answers every future when leadership is lost. One that it has in its queue while it shuts down it may never answer, so
// shutdown waits for them before.
func (g *Group) await(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	g.calls.Add(1)
	go func() {
		defer g.calls.Add(-1)
		done <- call()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-g.stopped:
		return ErrShutdown
	}
}

// readIndex returns the index up to which a node must have applied to have seen every write acknowledged before the
// call. Only a leader that has applied an entry of its own term knows it.
func (g *Group) readIndex(ctx context.Context) (uint64, error) {
	if !g.IsLeader() {
		return 0, ErrNotLeader
	}
	commit := g.raft.CommitIndex()
	if err := g.await(ctx, func() error { return fromRaft(g.raft.VerifyLeader().Error()) }); err != nil {
		return 0, err
	}
	// Only commands reach the state machine, so the one to wait for is the last command among the committed entries.
	for index := commit; index > g.Index(); index-- {
		var entry raft.Log
		if err := g.store.Log.GetLog(index, &entry); err != nil {
			break // compacted, so it is applied
		}
		if entry.Type == raft.LogCommand {
			return index, nil
		}
	}
	return min(commit, g.Index()), nil //nolint:nilerr // see break
}

// wait returns when this node has applied the command at index.
func (g *Group) wait(ctx context.Context, index uint64) error {
	for {
		changed := g.Changed()
		if g.Index() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for log entry %d: %w", index, ctx.Err())
		case <-g.stopped:
			return ErrShutdown
		}
	}
}
