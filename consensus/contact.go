package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/state"
)

// pollFresh is for how long callers share the count of voters that answer.
const pollFresh = time.Second

// electionsMissed is for how many election timeouts a leader may be missing before voters are counted.
const electionsMissed = 5

// contact is a server's contact to the leader: it finds one for those who need it, and counts the voters that answer while there
// is none.
type contact struct {
	replica *replica
	peers   *peers
	polls   *quorum.Poller
	opened  time.Time
	timing  Timing
	log     *slog.Logger
	told    func(Contact)
}

// Contact is a change in what a server knows of the leader.
type Contact struct {
	Leader string        // whom it follows now, or itself; empty: too few voters answer
	Term   uint64        // in which that leads
	Again  bool          // too few have answered before
	Lost   *quorum.Error // how many answer; nil: there is a leader
}

// leading returns the leader and its term; ok is false while there is none, or it changes.
func (c *contact) leading() (leader string, term uint64, ok bool) {
	before := c.replica.raft.CurrentTerm()
	leader, _, ok = c.replica.leader()
	term = c.replica.raft.CurrentTerm()
	return leader, term, ok && before == term
}

func newContact(r *replica, p *peers, cfg Config) *contact {
	c := &contact{replica: r, peers: p, opened: time.Now(), timing: cfg.Timing, log: cfg.Log, told: func(Contact) {}}
	if cfg.OnContact != nil {
		c.told = cfg.OnContact
	}
	c.polls = quorum.NewPoller(pollFresh, c.poll)
	return c
}

// seen is [Group.LeaderSeen].
func (c *contact) seen() time.Time {
	if c.replica.elected() {
		return time.Now()
	}
	return c.replica.raft.LastContact()
}

// quorum is [Group.Quorum].
func (c *contact) quorum(ctx context.Context) error {
	if _, _, ok := c.replica.leader(); ok {
		return nil
	}
	if err := c.count(ctx); errors.Is(err, quorum.ErrLost) {
		return err
	}
	return nil
}

// count returns how many voters answer, as a *quorum.Error, while there is no leader. It returns nil if this server knows of no
// voters, or ctx has ended.
func (c *contact) count(ctx context.Context) error {
	n, err := c.polls.Count(ctx)
	if err != nil || n.Voters() == 0 {
		return nil //nolint:nilerr // see above
	}
	return &quorum.Error{Count: n, LeaderSeen: c.seen()}
}

// poll asks all voters.
func (c *contact) poll() quorum.Count {
	ctx, cancel := raftnet.DoneContext(c.replica.stopped, probeTimeout)
	defer cancel()
	return quorum.Poll(ctx, quorumOf(c.replica.voters()), c.peers.probe)
}

// watch tells, until ctx ends, which leader there is, and logs when too few voters answer and when there is a leader again, each once.
func (c *contact) watch(ctx context.Context) {
	ticker := time.NewTicker(c.timing.Update)
	defer ticker.Stop()
	lost, last := false, Contact{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		leader, term, led := c.leading()
		if now := (Contact{Leader: leader, Term: term}); led && (lost || now != last) {
			last, now.Again = now, lost
			c.told(now)
		}
		switch {
		case led && lost:
			lost = false
			c.log.Info("there is a quorum again", "leader", leader)
		case !led && !lost && c.leaderless():
			if told, ok := errors.AsType[*quorum.Error](c.quorum(ctx)); ok {
				lost = true
				c.told(Contact{Lost: told})
				c.log.Error(told.Error(), "remedy", told.Remedy()) //nolint:sloglint // in the words that clients are told
			}
		}
	}
}

// leaderless reports whether a leader has been missing for longer than an election takes, or the restart of one of two servers.
func (c *contact) leaderless() bool {
	since := c.opened
	if seen := c.seen(); seen.After(since) {
		since = seen
	}
	return time.Since(since) >= electionsMissed*c.timing.Election
}

// retry calls try with the leader's address until it succeeds or fails for a reason that another try can't mend. Once there has
// been no leader for a while, it counts the voters that answer.
func (c *contact) retry(ctx context.Context, try func(ctx context.Context, leader string) error) error {
	pause := minBackoff
	last := ErrNoLeader
	for {
		if _, leader, ok := c.replica.leader(); ok {
			err := try(ctx, leader)
			if err == nil || !passing(err) {
				return err
			}
			if ctx.Err() == nil {
				last = err
			}
		} else if c.leaderless() {
			if counted, ok := errors.AsType[*quorum.Error](c.count(ctx)); ok {
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
		case <-c.replica.stopped:
			timer.Stop()
			return ErrShutdown
		}
		pause = min(2*pause, maxBackoff)
	}
}

// passing reports whether an error may be gone at the next try, with the same or another leader.
func passing(err error) bool {
	if _, rejected := errors.AsType[*state.Error](err); rejected {
		return false
	}
	return errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoLeader) || errors.Is(err, peerconn.ErrLost) ||
		errors.Is(err, ErrShutdown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
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
