package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// LeaderSeen returns when this server last had to do with a raft leader: now while it leads itself, which it does only
// with a majority behind it, else when it last heard from the one it follows; zero for never.
func (g *Group) LeaderSeen() time.Time {
	if g.raft.State() == raft.Leader {
		return time.Now()
	}
	return g.raft.LastContact()
}
