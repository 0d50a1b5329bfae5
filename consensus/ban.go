package consensus

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/state"
)

// bans keeps banned nodes out.
type bans struct {
	replica *replica
	members *membership
	trans   *raftnet.Transport
	conns   *peerconn.Pool
	streams *streams
	every   time.Duration
	log     *slog.Logger
}

// run enforces bans until ctx ends. It closes the streams of a banned node at once. On the leader it also removes the node's
// server from the configuration, which is still there if the ban did not come by Ban, or if the server slipped in meanwhile.
func (b *bans) run(ctx context.Context) {
	ticker := time.NewTicker(b.every)
	defer ticker.Stop()
	var known map[string]*state.Ban
	for {
		changed := b.replica.fsm.next()
		view := b.replica.view()
		if !maps.Equal(known, view.Bans) {
			known = view.Bans
			b.cutOff(func(peerID string) bool { return view.Banned(peerID) != nil })
		}
		if b.replica.leads() {
			b.members.expelStrangers(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-changed:
		}
	}
}

// cutOff closes the streams of the peers for whom out is true.
func (b *bans) cutOff(out func(peerID string) bool) {
	if out(b.replica.self.PeerID) {
		b.log.Warn("this node is banned from the swarm", "node", b.replica.name)
	}
	b.trans.CloseOf(out)
	b.conns.DropOf(func(address string) bool {
		id, _, err := ParseAddress(address)
		return err == nil && out(id)
	})
	b.streams.closeOf(out)
}
