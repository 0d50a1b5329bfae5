package consensus

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"

	"github.com/swarmd/swarmd/consensus/raftnet"
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
	// LedgerBehind tells that records of the ledger are missing there.
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

// Servers returns the configuration's servers in its order, for status.
func (g *Group) Servers() []Server {
	leader, _, _ := g.Leader()
	heard := map[string]time.Time{}
	if g.IsLeader() {
		heard = g.heard.All()
		heard[g.cfg.Name] = time.Now()
	}
	var out []Server
	for _, s := range g.servers() {
		name := string(s.ID)
		out = append(out, Server{
			Name: name, Address: string(s.Address), Voter: s.Suffrage == raft.Voter,
			Leader: name == leader, LastContact: heard[name],
		})
	}
	return out
}

func (g *Group) voters() []raft.Server {
	return slices.DeleteFunc(slices.Clone(g.servers()), func(s raft.Server) bool { return s.Suffrage != raft.Voter })
}

// pilot tells autopilot about the group. Autopilot runs on the leader only.
type pilot struct{ g *Group }

func (g *Group) newAutopilot() *autopilot.Autopilot {
	return autopilot.New(g.raft, pilot{g},
		autopilot.WithLogger(raftnet.NewLog(g.log, "consensus")),
		autopilot.WithPromoter(promoter{new(autopilot.StablePromoter), g.unfit}),
		autopilot.WithUpdateInterval(g.cfg.Timing.Update),
		autopilot.WithReconcileInterval(2*g.cfg.Timing.Update))
}

// AutopilotConfig returns autopilot's limits.
func (p pilot) AutopilotConfig() *autopilot.Config {
	t := p.g.cfg.Timing
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
			stats, err := p.g.fetchStats(ctx, string(s.Address))
			if err != nil {
				p.g.log.Debug("server does not answer", "node", string(id), "err", err)
				return
			}
			p.g.heard.Touch(string(id), time.Now())
			p.g.heard.SetBehind(string(id), stats.LedgerBehind)
			mu.Lock()
			defer mu.Unlock()
			out[id] = &autopilot.ServerStats{
				LastContact: time.Duration(stats.LastContactMS) * time.Millisecond,
				LastTerm:    stats.LastTerm, LastIndex: stats.LastIndex,
			}
		})
	}
	asked.Wait()
	if p.g.cfg.OnHeard != nil {
		names := make([]string, 0, len(out))
		for id := range out {
			names = append(names, string(id))
		}
		slices.Sort(names)
		p.g.cfg.OnHeard(names)
	}
	return out
}

// fetchStats asks one server; this one answers itself.
func (g *Group) fetchStats(ctx context.Context, address string) (serverStats, error) {
	if address == g.cfg.Address {
		return g.ownStats(), nil
	}
	s, err := ask[nothing, serverStats](ctx, g.links, address, askStats, &nothing{})
	if err != nil {
		return serverStats{}, err
	}
	return *s, nil
}

// KnownServers returns the configuration's servers; those silent for too long are failed.
func (p pilot) KnownServers() map[raft.ServerID]*autopilot.Server {
	out := map[raft.ServerID]*autopilot.Server{}
	now := time.Now()
	for _, s := range p.g.servers() {
		status := autopilot.NodeAlive
		self := string(s.ID) == p.g.cfg.Name
		if !self && p.g.heard.Silence(string(s.ID), now) > p.g.cfg.Timing.Dead {
			status = autopilot.NodeFailed
		}
		out[s.ID] = &autopilot.Server{
			ID: s.ID, Name: string(s.ID), Address: s.Address, NodeStatus: status, RaftVersion: 3,
			NodeType: autopilot.NodeVoter, IsLeader: self && p.g.raft.State() == raft.Leader,
		}
	}
	return out
}

// RemoveFailedServer removes a dead server, unless fewer than three voters would be left: autopilot's own limit counts
// non-voters too.
func (p pilot) RemoveFailedServer(s *autopilot.Server) {
	voters := p.g.voters()
	votes := slices.ContainsFunc(voters, func(v raft.Server) bool { return v.ID == s.ID })
	if votes && len(voters)-1 < minVoters {
		p.g.log.Debug("dead server kept", "node", s.Name, "voters", len(voters))
		return
	}
	if err := p.g.raft.RemoveServer(s.ID, 0, 0).Error(); err != nil {
		p.g.log.Warn("dead server not removed", "node", s.Name, "err", err)
		return
	}
	p.g.log.Warn("dead server removed", "node", s.Name, "address", string(s.Address))
}

// unfit tells whether a server must not vote yet.
func (g *Group) unfit(name string) bool {
	twin, shared := g.twin(name)
	return g.heard.IsBehind(name) || twin != "" && !shared
}

// promoter makes healthy non-voters voters while there are fewer than MaxVoters. Who lacks a part of the ledger waits: with
// the votes of such servers alone, records could be lost for good. Nor does one SPIFFE ID get two votes.
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

// logTerm returns the term of the newest entry in raft's log; raft tells it only as text.
func logTerm(r *raft.Raft) uint64 {
	term, err := strconv.ParseUint(r.Stats()["last_log_term"], 10, 64)
	if err != nil {
		return 0
	}
	return term
}
