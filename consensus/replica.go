package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/state"
)

// replica is this server's copy of the state with the raft instance under it. It serves reads, and commits commands while this
// server leads.
type replica struct {
	name, address string
	self          Peer
	raft          *raft.Raft
	fsm           *fsm
	entries       raft.LogStore
	settled       atomic.Bool   // this server leads and has applied what was committed before its term
	news          chan struct{} // capacity 1: a command was committed that followers should hear of at once
	stopped       chan struct{} // closed when the group begins to shut down
	calls         atomic.Int64  // of await that raft has not answered
	committed     func(took time.Duration)
}

func newReplica(name, address, peerID, role string) *replica {
	return &replica{
		name: name, address: address, self: Peer{PeerID: peerID, Role: role},
		news: make(chan struct{}, 1), stopped: make(chan struct{}), committed: func(time.Duration) {},
	}
}

// view is the newest state that this server has applied.
func (r *replica) view() *state.State { return r.fsm.view.Load().state }

// index is the log index of the last command in view.
func (r *replica) index() uint64 { return r.fsm.view.Load().index }

// leader is the one that this server knows of; ok is false while it knows none.
func (r *replica) leader() (name, address string, ok bool) {
	a, id := r.raft.LeaderWithID()
	return string(id), string(a), id != "" && a != ""
}

// leads reports whether this server leads and has applied all that was committed before its term.
func (r *replica) leads() bool { return r.settled.Load() && r.elected() }

// elected reports whether raft has this server as the leader.
func (r *replica) elected() bool { return r.raft.State() == raft.Leader }

// servers returns the newest configuration, which may not be committed yet.
func (r *replica) servers() []raft.Server {
	future := r.raft.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// voters are the servers that vote.
func (r *replica) voters() (out []raft.Server) {
	for _, s := range r.servers() {
		if s.Suffrage == raft.Voter {
			out = append(out, s)
		}
	}
	return out
}

// addresses are those of all servers.
func (r *replica) addresses() []string {
	var out []string
	for _, s := range r.servers() {
		out = append(out, string(s.Address))
	}
	return out
}

// follows reports whether this server's leader is one by its configuration, with its name and its key.
func (r *replica) follows() bool {
	name, address, ok := r.leader()
	leader, _, err := ParseAddress(address)
	if !ok || err != nil {
		return false
	}
	for _, s := range r.servers() {
		if id, _, err := ParseAddress(string(s.Address)); string(s.ID) == name && err == nil && id == leader {
			return true
		}
	}
	return false
}

// propose has an encoded command committed by this server, the leader, and returns when it was applied here.
func (r *replica) propose(ctx context.Context, data []byte) (applied, error) {
	if !r.elected() {
		return applied{}, ErrNotLeader
	}
	var a applied
	begun := time.Now()
	err := r.await(ctx, func() error {
		future := r.raft.Apply(data, 0)
		if err := future.Error(); err != nil {
			return fromRaft(err)
		}
		var ok bool
		if a, ok = future.Response().(applied); !ok {
			return errors.New("propose: raft returned no result")
		}
		r.committed(time.Since(begun))
		return a.err
	})
	if err != nil {
		return applied{}, err
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
	return a, nil
}

// spread tells followers at once that a command is committed, until ctx ends. Raft itself tells them with the next entry, or when
// it has been idle for Timing.Commit; a round waits for that twice. So an empty entry follows each burst of commands.
func (r *replica) spread(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.news:
		}
		if r.leads() && len(r.servers()) > 1 {
			_ = r.await(ctx, func() error { return r.raft.Barrier(0).Error() }) // only a hint: the next one says it too
		}
	}
}

// await runs a blocking call of raft's, which knows no context. When ctx or the group ends first the call is left to
// end by itself: raft answers every future when leadership is lost. One that it has in its queue while it shuts down it may never answer, so
// whoever shuts down waits for them before, with drain.
func (r *replica) await(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	r.calls.Add(1)
	go func() {
		defer r.calls.Add(-1)
		done <- call()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.stopped:
		return ErrShutdown
	}
}

// drain waits for the calls that raft has not answered, for a time.
func (r *replica) drain(limit time.Duration) {
	for end := time.Now().Add(limit); r.calls.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// readIndex returns the index up to which a node must have applied to have seen every write acknowledged before the
// call. Only a leader that has applied an entry of its own term knows it.
func (r *replica) readIndex(ctx context.Context) (uint64, error) {
	if !r.leads() {
		return 0, ErrNotLeader
	}
	commit := r.raft.CommitIndex()
	if err := r.await(ctx, func() error { return fromRaft(r.raft.VerifyLeader().Error()) }); err != nil {
		return 0, err
	}
	// Only commands reach the state machine, so the one to wait for is the last command among the committed entries.
	for index := commit; index > r.index(); index-- {
		var entry raft.Log
		if err := r.entries.GetLog(index, &entry); err != nil {
			break // compacted, so it is applied
		}
		if entry.Type == raft.LogCommand {
			return index, nil
		}
	}
	return min(commit, r.index()), nil //nolint:nilerr // see break
}

// wait returns when this node has applied the command at index.
func (r *replica) wait(ctx context.Context, index uint64) error {
	for {
		changed := r.fsm.next()
		if r.index() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for log entry %d: %w", index, ctx.Err())
		case <-r.stopped:
			return ErrShutdown
		}
	}
}

// stats tells the leader how far this server's log is.
func (r *replica) stats() serverStats {
	s := serverStats{LastIndex: r.raft.LastIndex(), Applied: r.index(), LastTerm: logTerm(r.raft)}
	if !r.elected() {
		if last := r.raft.LastContact(); !last.IsZero() {
			s.LastContactMS = max(time.Since(last).Milliseconds(), 0)
		} else {
			s.LastContactMS = -1
		}
	}
	return s
}

// genuine reports whether a peer is neither banned nor one with a known node key and another SPIFFE ID than its node's: a
// stolen key is no SN.
func (r *replica) genuine(p Peer) bool {
	view := r.view()
	if view.Banned(p.PeerID) != nil {
		return false
	}
	n := view.NodeOfKey(p.PeerID)
	return n == nil || p.SPIFFEID == "" || n.Bears(p.SPIFFEID)
}

// handOver makes another server the leader, if that is possible within a time; it does nothing on a follower and on a voter alone.
func (r *replica) handOver(limit time.Duration) error {
	if !r.elected() || len(r.voters()) <= 1 {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- r.raft.LeadershipTransfer().Error() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return nil
	}
}

// gives reports whether this server gives up its disk after a write has taken so long. A server alone waits, since no other could
// take over. A leader holds up all others and gives up first. A follower holds up only the SLs that use it. Servers that share a
// storage hang all at once when it fails over, and some must be left when it answers.
func (r *replica) gives(waited, limit time.Duration) bool {
	return len(r.servers()) > 1 && (r.elected() || waited >= 6*limit)
}
