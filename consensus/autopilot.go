package consensus

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"

	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/roster"
)

// minVoters is what cleaning up dead servers leaves: below three, one more death stops the swarm.
const minVoters = 3

// maxLag is how many entries a healthy server may be behind.
const maxLag = 1000

// serverStats is a server's answer to the leader.
type serverStats struct {
	LastContactMS int64  `json:"last_contact_ms"` // since it heard from its leader; -1: never
	LastTerm      uint64 `json:"last_term"`
	LastIndex     uint64 `json:"last_index"`
	Applied       uint64 `json:"applied"`
	// LedgerBehind reports whether records of the ledger are missing there.
	LedgerBehind bool `json:"ledger_behind,omitempty"`
}

// Server is one server as the leader sees it.
type Server struct {
	Name    string
	Address string
	Voter   bool
	Leader  bool
	// LastContact is when the leader last heard from it; zero on a follower, which can't know.
	LastContact time.Time
}

// pilot describes the group to autopilot, which runs on the leader only.
type pilot struct {
	replica *replica
	peers   *peers
	heard   *roster.Roster
	timing  Timing
	onHeard func(names []string) // may be nil
	log     *slog.Logger
}

var _ autopilot.ApplicationIntegration = (*pilot)(nil)

// newAutopilot returns an autopilot that never promotes an unfit server.
func newAutopilot(p pilot, unfit func(name string) bool) *autopilot.Autopilot {
	return autopilot.New(p.replica.raft, p,
		autopilot.WithLogger(raftnet.NewLog(p.log, "consensus")),
		autopilot.WithPromoter(promoter{new(autopilot.StablePromoter), unfit}),
		autopilot.WithUpdateInterval(p.timing.Update),
		autopilot.WithReconcileInterval(2*p.timing.Update))
}

// AutopilotConfig returns autopilot's limits.
func (p pilot) AutopilotConfig() *autopilot.Config {
	t := p.timing
	return &autopilot.Config{
		CleanupDeadServers:      true,
		LastContactThreshold:    2 * t.Heartbeat,
		MaxTrailingLogs:         maxLag,
		MinQuorum:               minVoters,
		ServerStabilizationTime: t.Stable,
	}
}

// NotifyState does nothing: Servers and OnHeard tell what matters.
func (pilot) NotifyState(*autopilot.State) {}

// FetchServerStats asks all servers at once how far they are.
func (p pilot) FetchServerStats(ctx context.Context, servers map[raft.ServerID]*autopilot.Server) map[raft.ServerID]*autopilot.ServerStats {
	var mu sync.Mutex
	out := map[raft.ServerID]*autopilot.ServerStats{}
	var asked sync.WaitGroup
	for id, s := range servers {
		asked.Go(func() {
			stats, err := p.peers.fetchStats(ctx, string(s.Address))
			if err != nil {
				p.log.Debug("server does not answer", "node", string(id), "err", err)
				return
			}
			p.heard.Touch(string(id), time.Now())
			p.heard.SetBehind(string(id), stats.LedgerBehind)
			mu.Lock()
			defer mu.Unlock()
			out[id] = &autopilot.ServerStats{
				LastContact: time.Duration(stats.LastContactMS) * time.Millisecond,
				LastTerm:    stats.LastTerm, LastIndex: stats.LastIndex,
			}
		})
	}
	asked.Wait()
	if p.onHeard != nil {
		names := make([]string, 0, len(out))
		for id := range out {
			names = append(names, string(id))
		}
		slices.Sort(names)
		p.onHeard(names)
	}
	return out
}

// KnownServers returns the configuration's servers; those silent for too long are failed.
func (p pilot) KnownServers() map[raft.ServerID]*autopilot.Server {
	out := map[raft.ServerID]*autopilot.Server{}
	now := time.Now()
	for _, s := range p.replica.servers() {
		status := autopilot.NodeAlive
		self := string(s.ID) == p.replica.name
		if !self && p.heard.Silence(string(s.ID), now) > p.timing.Dead {
			status = autopilot.NodeFailed
		}
		out[s.ID] = &autopilot.Server{
			ID: s.ID, Name: string(s.ID), Address: s.Address, NodeStatus: status, RaftVersion: 3,
			NodeType: autopilot.NodeVoter, IsLeader: self && p.replica.elected(),
		}
	}
	return out
}

// RemoveFailedServer removes a dead server, unless fewer than three voters would be left: autopilot's own limit counts
// non-voters too.
func (p pilot) RemoveFailedServer(s *autopilot.Server) {
	voters := p.replica.voters()
	votes := slices.ContainsFunc(voters, func(v raft.Server) bool { return v.ID == s.ID })
	if votes && len(voters)-1 < minVoters {
		p.log.Debug("dead server kept", "node", s.Name, "voters", len(voters))
		return
	}
	if err := p.replica.raft.RemoveServer(s.ID, 0, 0).Error(); err != nil {
		p.log.Warn("dead server not removed", "node", s.Name, "err", err)
		return
	}
	p.log.Warn("dead server removed", "node", s.Name, "address", string(s.Address))
}

// promoter makes healthy non-voters voters while there are fewer than MaxVoters. It does not promote a server that lacks a part
// of the ledger: a majority of such servers could lose records for good. Nor does it give one SPIFFE ID two votes.
type promoter struct {
	*autopilot.StablePromoter
	unfit func(name string) bool
}

// CalculatePromotionsAndDemotions promotes by name, so that two leaders in a row choose alike.
func (p promoter) CalculatePromotionsAndDemotions(c *autopilot.Config, s *autopilot.State) autopilot.RaftChanges {
	changes := p.StablePromoter.CalculatePromotionsAndDemotions(c, s)
	changes.Promotions = slices.DeleteFunc(changes.Promotions, func(id raft.ServerID) bool { return p.unfit(string(id)) })
	slices.Sort(changes.Promotions)
	changes.Promotions = changes.Promotions[:max(0, min(len(changes.Promotions), MaxVoters-len(s.Voters)))]
	return changes
}

// logTerm returns the term of the newest entry in raft's log; raft exposes it as text only.
func logTerm(r *raft.Raft) uint64 {
	term, err := strconv.ParseUint(r.Stats()["last_log_term"], 10, 64)
	if err != nil {
		return 0
	}
	return term
}
