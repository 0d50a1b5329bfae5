package consensus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
)

// probeTimeout bounds the question whether an SN is there.
const probeTimeout = 2 * time.Second

// proposeWithout proposes what ends a node key's membership, whose encoded form is data, when its server is out of the
// configuration: in the other order a crash in between would leave a voter that nobody speaks to.
func (g *Group) proposeWithout(ctx context.Context, peerID string, c state.Command, data []byte) (applied, error) {
	if err := g.acquire(ctx); err != nil {
		return applied{}, err
	}
	defer g.release()
	if _, _, err := g.View().Apply(c); err != nil {
		return applied{}, err // what the state refuses must not cost a server
	}
	if err := g.expel(ctx, peerID); err != nil {
		return applied{}, err
	}
	return g.proposeLocal(ctx, data)
}

// acquire waits for the right to change the configuration, which the leader gives to one at a time.
func (g *Group) acquire(ctx context.Context) error {
	select {
	case g.joining <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-g.stopped:
		return ErrShutdown
	}
}

func (g *Group) release() { <-g.joining }

// expel takes the server of a node key out of the configuration, if there is one. The caller holds joining.
func (g *Group) expel(ctx context.Context, peerID string) error {
	for _, s := range g.servers() {
		if id, _, err := ParseAddress(string(s.Address)); err != nil || id != peerID {
			continue
		}
		if err := g.expendable(ctx, s); err != nil {
			return err
		}
		if string(s.ID) == g.cfg.Name {
			return g.handOver(ctx)
		}
		if err := g.change(ctx, func() raft.IndexFuture { return g.raft.RemoveServer(s.ID, 0, 0) }); err != nil {
			return err
		}
		g.log.Warn("server expelled", "node", string(s.ID), "address", string(s.Address))
	}
	return nil
}

// expendable refuses to do without a server if the voters that remain, as far as they answer, are no majority of theirs.
func (g *Group) expendable(ctx context.Context, out raft.Server) error {
	if out.Suffrage != raft.Voter {
		return nil
	}
	rest := quorumOf(slices.DeleteFunc(g.voters(), func(v raft.Server) bool { return v.ID == out.ID }))
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if c := quorum.Poll(ctx, rest, g.probe); !c.Majority() {
		return &state.Error{
			Reason:  state.ReasonQuorum,
			Message: fmt.Sprintf("without SN %s the swarm could not agree any more: of the other %d voting SNs %d answer, %d must", out.ID, c.Voters(), len(c.Answer), c.Voters()/2+1),
			Remedy:  "start the missing SNs, or another one, first",
		}
	}
	return nil
}

// handOver makes another server the leader, since one can't expel itself. It returns ErrNotLeader when that is done, for
// the caller to ask the new leader.
func (g *Group) handOver(ctx context.Context) error {
	if err := g.await(ctx, func() error { return g.raft.LeadershipTransfer().Error() }); err != nil {
		return &state.Error{
			Reason: state.ReasonQuorum, Message: fmt.Sprintf("the leader %s is to be taken out and could not hand over leadership: %v", g.cfg.Name, err),
			Remedy: "try again, or stop that SN first",
		}
	}
	return ErrNotLeader
}

// banLoop follows the bans: whoever is banned loses its streams at once, and on the leader its place in the configuration
// if it still has one, because it was banned by other means than Ban or slipped in meanwhile.
func (g *Group) banLoop(ctx context.Context) {
	ticker := time.NewTicker(g.cfg.Timing.Update)
	defer ticker.Stop()
	var known map[string]*state.Ban
	for {
		changed := g.Changed()
		view := g.View()
		if !maps.Equal(known, view.Bans) {
			known = view.Bans
			g.cutOff(func(peerID string) bool { return view.Banned(peerID) != nil })
		}
		if g.IsLeader() {
			g.expelStrangers(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-changed:
		}
	}
}

// expelStrangers expels who is banned, who was forgotten, so that nobody counts for the quorum whom no list shows, and where
// operators admit SNs, who is admitted no longer.
func (g *Group) expelStrangers(ctx context.Context) {
	for _, s := range g.servers() {
		id, _, err := ParseAddress(string(s.Address))
		if err != nil || g.belongs(string(s.ID), id) {
			continue
		}
		if err := g.acquire(ctx); err != nil {
			return
		}
		if !g.belongs(string(s.ID), id) { // it may have registered meanwhile
			err = g.expel(ctx, id)
		}
		g.release()
		if err != nil && ctx.Err() == nil {
			g.log.Debug("server not expelled yet", "node", string(s.ID), "err", err)
		}
	}
}

// belongs tells whether the newest state has a server of the configuration, which registers before it becomes one. Only a founder
// is one before: this server.
func (g *Group) belongs(name, id string) bool {
	view := g.View()
	n := view.Nodes[name]
	return view.Banned(id) == nil && view.CheckAdmission(name, id) == nil && (n != nil && n.PeerID == id || name == g.cfg.Name)
}

// cutOff closes the streams of the peers for whom out is true.
func (g *Group) cutOff(out func(peerID string) bool) {
	if out(g.self.PeerID) {
		g.log.Warn("this node is banned from the swarm", "node", g.cfg.Name)
	}
	g.trans.CloseOf(out)
	g.links.DropOf(func(address string) bool {
		id, _, err := ParseAddress(address)
		return err == nil && out(id)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for conn, peerID := range g.streams {
		if out(peerID) {
			_ = conn.Close()
		}
	}
}
