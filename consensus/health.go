package consensus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/raftnet"
)

// pollFresh is for how long callers share the count of voters that answer.
const pollFresh = time.Second

// electionsMissed is for how many election timeouts a leader may be missing before voters are counted.
const electionsMissed = 5

// LeaderSeen returns when this server last had to do with a raft leader: now while it leads itself, which it does only
// with a majority behind it, else when it last heard from the one it follows; zero for never.
func (g *Group) LeaderSeen() time.Time {
	if g.raft.State() == raft.Leader {
		return time.Now()
	}
	return g.raft.LastContact()
}

// Quorum returns nil while this server knows a leader, or if a majority of the voters answers it. Otherwise it returns a
// *quorum.Error, which errors.Is finds to be quorum.ErrLost and ErrNoLeader. It blocks for two seconds at most.
func (g *Group) Quorum(ctx context.Context) error {
	if _, _, ok := g.Leader(); ok {
		return nil
	}
	if err := g.count(ctx); errors.Is(err, quorum.ErrLost) {
		return err
	}
	return nil
}

// count says how many voters answer while there is no leader, as a *quorum.Error; nil: this server knows of no voters, or ctx ended.
func (g *Group) count(ctx context.Context) error {
	c, err := g.polls.Count(ctx)
	if err != nil || c.Voters() == 0 {
		return nil //nolint:nilerr // see above
	}
	return &quorum.Error{Count: c, LeaderSeen: g.LeaderSeen()}
}

// poll asks all voters.
func (g *Group) poll() quorum.Count {
	ctx, cancel := raftnet.DoneContext(g.stopped, probeTimeout)
	defer cancel()
	return quorum.Poll(ctx, quorumOf(g.voters()), g.probe)
}

func (g *Group) probe(ctx context.Context, v quorum.Voter) error {
	_, err := g.fetchStats(ctx, v.ID)
	return err
}

// quorumLoop tells in the log, once, that too few voters answer, and once that there is a leader again.
func (g *Group) quorumLoop(ctx context.Context) {
	ticker := time.NewTicker(g.cfg.Timing.Update)
	defer ticker.Stop()
	lost := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		leader, _, led := g.Leader()
		switch {
		case led && lost:
			lost = false
			g.log.Info("there is a quorum again", "leader", leader)
		case !led && !lost && g.leaderless():
			if told, ok := errors.AsType[*quorum.Error](g.Quorum(ctx)); ok {
				lost = true
				g.log.Error(told.Error(), "remedy", told.Remedy()) //nolint:sloglint // in the words that clients are told
			}
		}
	}
}

// leaderless reports whether a leader has been missing for longer than an election takes, or the restart of one of two servers.
func (g *Group) leaderless() bool {
	return time.Since(g.ledUntil()) >= electionsMissed*g.cfg.Timing.Election
}

// ledUntil is when this server last had to do with a leader, or when it was opened.
func (g *Group) ledUntil() time.Time {
	if seen := g.LeaderSeen(); seen.After(g.opened) {
		return seen
	}
	return g.opened
}

// quorumOf are servers as those that count them see them, by name.
func quorumOf(servers []raft.Server) []quorum.Voter {
	out := make([]quorum.Voter, 0, len(servers))
	for _, s := range servers {
		_, hostport, err := ParseAddress(string(s.Address))
		if err != nil {
			hostport = string(s.Address)
		}
		out = append(out, quorum.Voter{Name: string(s.ID), ID: string(s.Address), Address: hostport})
	}
	slices.SortFunc(out, func(a, b quorum.Voter) int { return strings.Compare(a.Name, b.Name) })
	return out
}
