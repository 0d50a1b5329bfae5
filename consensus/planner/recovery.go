package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/planner/weightcap"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/text"
)

// recovery goes back to an older model when nobody holds the last one any more.
type recovery struct {
	facts  *facts
	answer *answer
	times  *recoveryTimes
}

type recoveryTimes struct {
	since  time.Time // since when nobody alive holds the committed model
	inVain time.Time // until when the rules forbade a round of those who are there anyway; since if they never did
}

// modelLost reports whether the committed model is gone: enough sessions live, and none of their nodes holds it. When that lasts for
// the stall grace, training goes back to the newest model that is held, or begins anew. It is false while nothing is wrong,
// and in the first seconds, when the reports of those who hold it may be on their way: however short the grace is, a new
// leader, which has heard of nobody, gives them the two heartbeat timeouts in which it finds nobody dead either.
func (rc *recovery) modelLost() bool {
	live, held := rc.facts.survivors()
	if !rc.facts.c.HasModel() || rc.facts.c.Terms == nil || live < int(rc.facts.c.Terms.MinPeers) || held {
		rc.times.since, rc.times.inVain = time.Time{}, time.Time{}
		return false
	}
	now := rc.facts.in.Now
	if rc.times.since.IsZero() {
		rc.times.since, rc.times.inVain = now, now
	}
	if now.Sub(rc.times.since) < rc.facts.cfg.HeartbeatTimeout {
		return false
	}
	last, old := rc.facts.c.Committed, rc.newestModel()
	if err := rc.facts.forbidden(); err != nil && !rc.facts.c.FinalDue() { // a final round does not wait for whom a rule requires
		rc.times.inVain = now
		rc.answer.wait(Waiting{Kind: WaitModel, Since: rc.times.since, For: last.Participants, Rule: fmt.Sprintf(
			"no node that is alive holds the model of round %d, which %s had, and without it no round could be held either: %s", last.Round, text.Names(last.Participants), err)})
		return true
	}
	until := rc.times.inVain.Add(max(rc.facts.cfg.StallGrace, 2*rc.facts.cfg.HeartbeatTimeout))
	if now.Before(until) {
		rc.answer.wait(Waiting{Kind: WaitModel, Since: rc.times.since, Until: until, For: last.Participants, Rule: fmt.Sprintf(
			"no node that is alive holds the model of round %d, which %s had; without them training %s", last.Round, text.Names(last.Participants), old.outlook())})
		return true
	}
	rc.answer.propose(state.LoseModel{
		Contract: rc.facts.c.Name, Run: rc.facts.c.Run, Round: last.Round, Digest: last.Digest, ResumedRound: old.Round,
		ResumedDigest: old.Digest, ResumedStateDigest: old.State, AtMS: now.UnixMilli(),
	}, fmt.Sprintf("that the model of round %d is lost: training %s", last.Round, old.outlook()))
	return true
}

// forbidden returns which rule would forbid a round of all who are there, or nil: to give the model up would not help them, and
// who is missing may bring it.
func (f *facts) forbidden() error {
	var parts []state.Participant
	var weights []uint32
	for _, s := range f.c.Active() {
		if n := f.in.View.Nodes[s.Node]; n != nil && n.Live {
			parts = append(parts, state.Participant{Session: s.ID, Node: s.Node})
			weights = append(weights, s.Weight)
		}
	}
	if f.c.Rules != nil {
		weights = weightcap.Apply(weights, f.c.Rules.WeightCapPPM)
	}
	for i, w := range weights {
		parts[i].Weight = w
	}
	return f.c.CheckPlan(parts)
}

// survivors counts the sessions that could train on, and reports whether a node holds the committed model.
func (f *facts) survivors() (live int, held bool) {
	for _, s := range f.c.Active() {
		if n := f.in.View.Nodes[s.Node]; n != nil && n.Live {
			live++
		}
	}
	last := f.c.Committed
	if last == nil {
		return live, false
	}
	for _, r := range f.recentReports() {
		held = held || r.Ready != nil && r.Ready.BaseRound == last.Round && r.Ready.BaseDigest == last.Digest
		held = held || r.Done != nil && r.Done.Round == last.Round && r.Done.ModelDigest == last.Digest // it merged it
		// By digest alone: a model that training went back to has the number of another round at whoever held it before.
		held = held || slices.ContainsFunc(r.Held, func(m round.Model) bool { return m.Digest == last.Digest && m.State == last.StateDigest })
	}
	return live, held
}

// recentReports returns the newest reports from nodes that live, in the order of their sessions' IDs. A daemon that was started anew
// may live while the report is of the one before.
func (f *facts) recentReports() []reports.Report {
	var out []reports.Report
	for _, id := range slices.Sorted(maps.Keys(f.in.Reports)) {
		r := f.in.Reports[id]
		s := f.c.Sessions[id]
		if s == nil {
			continue
		}
		r.Node = s.Node
		n := f.in.View.Nodes[s.Node]
		if n != nil && n.Live && (r.At.IsZero() || f.in.Now.Sub(r.At) <= f.cfg.HeartbeatTimeout) {
			out = append(out, r)
		}
	}
	return out
}

// olderModel is a model that training can go back to; the zero value is none.
type olderModel struct {
	round.Model
	nodes []string // that hold it
}

func (o olderModel) outlook() string {
	if o.Round == 0 {
		return "begins anew, as nobody holds an older one"
	}
	return fmt.Sprintf("goes back to the model of round %d, which %s has", o.Round, text.Names(o.nodes))
}

// newestModel finds the newest model that is held, of several of one round the one that most hold. It must be the one
// that was committed, where this leader knows, and a method that keeps an optimiser's state needs it.
func (rc *recovery) newestModel() olderModel {
	last := rc.facts.c.Committed
	by := map[round.Model]*olderModel{}
	for _, r := range rc.facts.recentReports() {
		for _, h := range r.Held {
			fits := h.Round >= 1 && h.Round < last.Round && hexDigest(h.Digest) && (h.State == "") == (last.StateDigest == "") &&
				(h.State == "" || hexDigest(h.State))
			if !fits || rc.facts.contradicts(h) {
				continue
			}
			if by[h] == nil {
				by[h] = &olderModel{Model: h}
			}
			if !slices.Contains(by[h].nodes, r.Node) {
				by[h].nodes = append(by[h].nodes, r.Node)
			}
		}
	}
	var best olderModel
	for _, o := range by {
		if o.Round > best.Round || o.Round == best.Round && (len(o.nodes) > len(best.nodes) || len(o.nodes) == len(best.nodes) && o.Digest < best.Digest) {
			best = *o
		}
	}
	return best
}

// hexDigest reports whether a text is a digest in hex.
func hexDigest(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }
