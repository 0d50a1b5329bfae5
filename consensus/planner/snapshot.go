package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
)

// Snapshot is how things stand around a contract at the moment of a decision: what Explain shows beside the reason.
type Snapshot struct {
	Contract   string
	Run        uint64
	Round      uint64      // the last committed one, 0: none
	Committed  time.Time   // when it was
	Final      bool        // the round that is due is the last one
	Planned    time.Time   // when the running attempt was planned; zero: none runs
	LastFailed string      // why an earlier attempt of the round that is due was given up; empty: none was
	Skips      state.Skips // of the run
	Halt       Halt        // that an operator has paused or ends the training; zero: neither
	Shared     []string    // SPIFFE IDs that more than one of the peers has, sorted
	Shardless  bool        // all peers want to own no part of a merge, so all do
	Curbed     []string    // nodes that ask for longer waits than count
	Refusing   string      // who takes part in nothing with whom, in words; empty: all do with all
	Apart      []Apart     // who can open no connection to whom, where there is no way back either; both of each pair, some of many
	QuorumWait time.Duration
	StallGrace time.Duration // with the quorum wait: what holds
	Samples    []Samples     // of the peers in the order of opening, where weights are numbers of samples
	Peers      []Peer        // in the order of opening; ended sessions of nodes that have no other last
}

// Halt is that an operator has paused a training or ends it.
type Halt struct {
	Ends  bool
	By    string // SPIFFE ID of the operator
	Since time.Time
}

func haltOf(c *state.Contract) Halt {
	if c.Halt == nil {
		return Halt{}
	}
	return Halt{Ends: c.Halt.Ends, By: cmp.Or(c.Halt.By, "an operator"), Since: time.UnixMilli(c.Halt.AtMS)}
}

// String is one line for people. The time is UTC.
func (h Halt) String() string {
	what := "paused"
	if h.Ends {
		what = "being ended"
	}
	return fmt.Sprintf("%s by %s since %s UTC", what, h.By, h.Since.UTC().Format(time.DateTime))
}

// Samples is how many a peer has, as of its last round.
type Samples struct {
	Node   string
	Number uint32
}

// Activity is what a peer does.
type Activity string

// Activities of peers.
const (
	PeerReady    Activity = "ready"
	PeerTraining Activity = "training" // between two rounds, or before its first
	PeerFetching Activity = "fetching" // it takes the committed model, from the next round on it contributes
	PeerUnheard  Activity = "unheard"  // alive, but this leader has not heard of its session yet
	PeerSilent   Activity = "silent"   // not heard from for half of the time after which it is found dead; what it does is not known
	PeerMerging  Activity = "merging"  // in the running attempt, nothing reported yet
	PeerDone     Activity = "done"     // holds the running attempt's model
	PeerFailed   Activity = "failed"   // reported that it could not go on with the running attempt
	PeerDead     Activity = "dead"     // its SNs do not hear of it
	PeerSitting  Activity = "sitting"  // left out for what it was blamed for
	PeerStaying  Activity = "staying"  // training is over, its program has not taken the final model yet
	PeerEnded    Activity = "ended"    // its session has ended and it has no other
)

// Peer is one session of the contract's run.
type Peer struct {
	Node   string
	Does   Activity
	Since  time.Time // zero: not known
	Until  uint64    // of PeerSitting: the last round that it sits out
	Reason string    // why it failed or ended
	Counted
}

// Counted is in which rounds what a session left has counted that is to count once; zero: in none, or it is no such session.
type Counted struct {
	First  uint64 // the first of them; 0: not known
	Rounds uint64 // how many
}

func countedOf(c *state.Contract, x *state.Session) Counted {
	if c.Over || !x.CountedOnce() {
		return Counted{}
	}
	return Counted{First: x.CountedIn, Rounds: x.ClosedRounds}
}

// observer tells how things stand around a contract.
type observer struct {
	facts  *facts
	lineup *lineup
	out    *exclusions
}

func (ob *observer) snapshot() Snapshot {
	s := Snapshot{Contract: ob.facts.c.Name, Run: ob.facts.c.Run, Round: ob.facts.c.Round(), Final: ob.facts.c.FinalDue(), LastFailed: ob.facts.c.PendingReason}
	s.QuorumWait, s.StallGrace = ob.facts.cfg.QuorumWait, ob.facts.cfg.StallGrace
	s.Shared = slices.Sorted(maps.Keys(SharedIDs(ob.facts.in.View, ob.facts.c)))
	if ob.facts.c.Skips != nil {
		s.Skips = *ob.facts.c.Skips
	}
	s.Halt = haltOf(ob.facts.c)
	if c := ob.facts.c.Committed; c != nil {
		s.Committed = time.UnixMilli(c.CommittedMS)
	}
	if p := ob.facts.c.Plan; p != nil {
		s.Planned, s.Final = time.UnixMilli(p.PlannedMS), p.Final
	}
	var nodes []string
	for _, x := range ob.facts.c.Active() {
		nodes = append(nodes, x.Node)
	}
	s.Refusing = refusing(ob.facts.refusals(nodes))
	for i, p := range ob.facts.apart(nodes, false) {
		if i < maxApart {
			s.Apart = append(s.Apart, p[0], p[1])
		}
	}
	there := map[string]bool{}
	active := ob.facts.c.Active()
	s.Shardless = len(active) > 0
	for _, x := range active {
		s.Shardless = s.Shardless && x.NoShard
		there[x.Node] = true
		if ob.facts.cfg.curbed(x, ob.facts.c.Rules) {
			s.Curbed = append(s.Curbed, x.Node)
		}
		if x.Terms.Weights == state.WeightsSamples {
			s.Samples = append(s.Samples, Samples{x.Node, x.Weight})
		}
		p := ob.peer(x)
		p.Counted = countedOf(ob.facts.c, x)
		s.Peers = append(s.Peers, p)
	}
	return ob.withEnded(s, there)
}

// withEnded adds the newest session of each node that has no other.
func (ob *observer) withEnded(s Snapshot, there map[string]bool) Snapshot {
	newest := map[string]*state.Session{}
	for _, x := range ob.facts.c.Sessions {
		if x.Run != ob.facts.c.Run || there[x.Node] || x.State != state.SessionEnded {
			continue
		}
		if old := newest[x.Node]; old == nil || old.Order < x.Order {
			newest[x.Node] = x
		}
	}
	ended := make([]*state.Session, 0, len(newest))
	for _, x := range newest {
		ended = append(ended, x)
	}
	slices.SortFunc(ended, func(a, b *state.Session) int { return strings.Compare(a.Node, b.Node) })
	for _, x := range ended {
		s.Peers = append(s.Peers, Peer{Node: x.Node, Does: PeerEnded, Reason: x.EndReason})
	}
	return s
}

// peer tells what one active session does now.
func (ob *observer) peer(x *state.Session) Peer {
	p := Peer{Node: x.Node}
	n := ob.facts.in.View.Nodes[x.Node]
	if n == nil || !n.Live {
		p.Does = PeerDead
		if n != nil && n.LiveSinceMS > 0 {
			p.Since = time.UnixMilli(n.LiveSinceMS)
		}
		return p
	}
	if ob.facts.c.Over {
		p.Does = PeerStaying
		return p
	}
	r := ob.facts.in.Reports[x.ID]
	silent := !r.At.IsZero() && ob.facts.in.Now.Sub(r.At) > ob.facts.cfg.HeartbeatTimeout/2
	if plan := ob.facts.c.Plan; plan != nil && plan.Participant(x.ID) != nil {
		if p = attending(p, plan, r); silent && p.Does == PeerMerging {
			p.Does, p.Since = PeerSilent, r.At
		}
		return p
	}
	if ob.out.sitting(x.Node) {
		p.Does, p.Until = PeerSitting, ob.out.sitOut[x.Node]
		return p
	}
	judged := peer{session: x}
	if x.State == state.SessionClosed {
		ob.lineup.judgeClosed(&judged)
	} else {
		ob.lineup.judgeOpen(&judged)
	}
	p.Since = time.UnixMilli(x.OpenedMS)
	if c := ob.facts.c.Committed; c != nil && c.CommittedMS > x.OpenedMS {
		p.Since = time.UnixMilli(c.CommittedMS)
	}
	switch {
	case judged.ready:
		p.Does, p.Since = PeerReady, time.Time{}
	case r.At.IsZero():
		p.Does = PeerUnheard
	case silent:
		p.Does, p.Since = PeerSilent, r.At
	case x.State == state.SessionClosed, r.Ready != nil && r.Ready.Seq > x.LastSeq:
		p.Does = PeerFetching
	default:
		p.Does = PeerTraining
	}
	return p
}

// attending is a participant of the running attempt.
func attending(p Peer, plan *state.Plan, r reports.Report) Peer {
	p.Does, p.Since = PeerMerging, time.UnixMilli(plan.PlannedMS)
	switch {
	case r.Done != nil && r.Done.Round == plan.Round && r.Done.Attempt == plan.Attempt:
		p.Does, p.Since = PeerDone, time.Time{}
	case r.Failed != nil && r.Failed.Round == plan.Round && r.Failed.Attempt == plan.Attempt:
		p.Does, p.Since, p.Reason = PeerFailed, r.FailedAt, r.Failed.Reason
		if b := r.Failed.Blamed; b != "" && b != p.Node {
			p.Reason = fmt.Sprintf("could not go on with %s: %s", b, r.Failed.Reason)
		}
	}
	return p
}

// SharedIDs returns the nodes with a session of the contract's run that come with a SPIFFE ID which more than one of them has, by
// that ID: each of them is a unit of its own where leaves are allotted, so one party with many nodes gets many parts.
func SharedIDs(view *state.State, c *state.Contract) map[string][]string {
	shared := map[string][]string{}
	for _, session := range c.Active() {
		if n := view.Nodes[session.Node]; n != nil && n.SPIFFEID != "" && !state.OwnID(n.SPIFFEID) {
			shared[n.SPIFFEID] = append(shared[n.SPIFFEID], n.Name)
		}
	}
	maps.DeleteFunc(shared, func(_ string, nodes []string) bool { return len(nodes) < 2 })
	return shared
}
