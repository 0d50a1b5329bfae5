package session

import (
	"fmt"
	"math"
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

// Timeouts are how long a node waits for other peers, with what else it asks of the swarm. Zero fields ask for nothing.
type Timeouts struct {
	QuorumWait time.Duration // for the peers beyond minPeers
	StallGrace time.Duration // for the same peers, when a merge stalls
	MinPeers   time.Duration // below minPeers for so long the session fails; 0: it waits for ever
	NoShard    bool          // this node wants to own no part of a merge
}

// request puts into a request what the node asks for.
func (t Timeouts) request(req *round.Open) {
	req.NoShard, req.QuorumWaitMS, req.StallGraceMS = t.NoShard, milliseconds(t.QuorumWait), milliseconds(t.StallGrace)
}

// milliseconds bounds a time to what the wire carries.
func milliseconds(d time.Duration) uint32 {
	return uint32(min(max(d.Milliseconds(), 0), math.MaxUint32)) //nolint:gosec // bounded
}

// watchMinPeers fails the session when the swarm was below minPeers for longer than the node waits. It blocks until the session
// ends, or returns at once if the node waits for ever.
func (mb *membership) watchMinPeers() {
	s, e := mb.s, mb.s.engine
	limit := e.cfg.Timeouts.MinPeers
	if limit <= 0 {
		return
	}
	var since time.Time
	for {
		e.mu.Lock()
		have, need := s.presentLocked()
		viewed, ended, now := e.viewed, s.ended(), time.Now()
		switch {
		case have >= need:
			since = time.Time{}
		case since.IsZero():
			since = now
		}
		rest := limit - now.Sub(since)
		if !ended && !since.IsZero() && rest <= 0 {
			s.giveUpLocked(&Error{
				"BELOW_MIN_PEERS",
				fmt.Sprintf("fewer than minPeers for %s: %d of %d were there", limit, have, need),
				"start the missing peers and then this program again, or give a longer --min-peers-timeout",
			})
			ended = true
		}
		e.mu.Unlock()
		if ended {
			return
		}
		var timeout <-chan time.Time
		timer := time.NewTimer(rest)
		if !since.IsZero() {
			timeout = timer.C
		}
		select {
		case <-s.lifecycle.ctx.Done():
		case <-viewed:
		case <-timeout:
		}
		timer.Stop()
		if s.lifecycle.ctx.Err() != nil {
			return
		}
	}
}

// presentLocked counts the sessions of live nodes, and how many a round needs; none while an operator has paused training, nor once it is
// over. Those of earlier runs have all ended.
func (s *session) presentLocked() (have, need uint32) {
	need = s.view.Terms.MinPeers
	if need == 0 {
		need = max(s.open.Terms.MinPeers, s.view.Rules.MinPeers)
	}
	if s.view.Halt.Pauses() || s.view.Over {
		need = 0
	}
	for _, m := range s.view.Sessions {
		if m.State != "ended" && m.Live {
			have++
		}
	}
	return have, need
}
