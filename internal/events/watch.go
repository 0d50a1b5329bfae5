package events

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/text"
)

// Watcher finds in one state after the other what has happened. It is for one goroutine.
type Watcher struct {
	nodes     map[string]*state.Node
	contracts map[string]*state.Contract
}

// Look returns what is new in a state. What raft catches up with is no news: unless caughtUp, and of what was not seen before, only that is
// returned of which the state has the time.
func (w *Watcher) Look(view *state.State, caughtUp bool) (found []Event) {
	for name, n := range view.Nodes {
		if before := w.nodes[name]; before != n {
			found = append(found, nodeEvents(view, before, n)...)
		}
	}
	for name, c := range view.Contracts {
		if before := w.contracts[name]; before != nil && before != c && before.Run == c.Run {
			found = append(found, contractEvents(before, c)...)
		}
	}
	w.nodes, w.contracts = view.Nodes, view.Contracts
	if !caughtUp {
		found = slices.DeleteFunc(found, func(e Event) bool { return e.AtMS == 0 })
	}
	slices.SortStableFunc(found, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.AtMS, b.AtMS), cmp.Compare(a.key(), b.key()))
	})
	return found
}

// nodeEvents finds what has happened to a node; before is nil of one that was not seen yet. What the ledger has, a ban or a first registration, is
// left out.
func nodeEvents(view *state.State, before, n *state.Node) []Event {
	e := Event{AtMS: n.LiveSinceMS, Node: n.Name, Text: "role " + n.Role}
	switch {
	case before != nil && before.Live == n.Live && before.Left() == n.Left() || view.Banned(n.PeerID) != nil:
		return nil
	case n.Left():
		e.Kind, e.Text = Left, n.LeftReason
	case !n.Live:
		e.Kind = Silent
	case before == nil:
		return nil
	default:
		e.Kind = Back
		if before.LiveSinceMS > 0 && !before.Left() && n.LiveSinceMS > before.LiveSinceMS {
			e.Text += ", silent for " + silence(n.LiveSinceMS-before.LiveSinceMS)
		}
	}
	return []Event{e}
}

// silence is a time for people.
func silence(ms int64) string {
	s := (ms + 500) / 1000
	switch {
	case s < 120:
		return fmt.Sprintf("%d s", s)
	case s < 2*3600:
		return fmt.Sprintf("%d min", s/60)
	}
	return fmt.Sprintf("%d h", s/3600)
}

// contractEvents finds what has happened in a run of a contract.
func contractEvents(before, c *state.Contract) (found []Event) {
	add := func(e Event) {
		e.Contract, e.Run = c.Name, c.Run
		found = append(found, e)
	}
	other := false // what ended an attempt is told as that
	if c.Lost != nil && (before.Lost == nil || *before.Lost != *c.Lost) {
		other = true
		add(Event{AtMS: c.Lost.AtMS, Kind: ModelLost, Round: c.Lost.Round, Text: c.Lost.String()})
	}
	if c.Adopted != nil && (before.Adopted == nil || *before.Adopted != *c.Adopted) {
		other = true
		add(Event{AtMS: c.Adopted.AtMS, Kind: ModelAdopted, Round: c.Adopted.Round, Text: c.Adopted.String()})
	}
	if k := c.Skips; k != nil && (before.Skips == nil || before.Skips.Count < k.Count) {
		other = true
		add(Event{AtMS: k.AtMS, Kind: RoundSkipped, Round: k.Round, Count: k.Count, Text: k.Reason})
	}
	if !other {
		if e, ok := failedAttempt(before, c); ok {
			add(e)
		}
	}
	for _, e := range failedSessions(before, c) {
		add(e)
	}
	return found
}

// failedAttempt finds the last attempt that came to nothing. Attempts that failed for the end of all sessions are told as that.
func failedAttempt(before, c *state.Contract) (e Event, ok bool) {
	e = Event{Kind: AttemptFailed, Round: before.Round() + 1, Attempt: endedAttempts(c), Text: c.PendingReason}
	if c.Round() > before.Round() {
		e.Attempt = max(1, c.Committed.Attempt) - 1
	}
	if c.Plan != nil && c.Plan.Round == e.Round {
		e.AtMS = c.Plan.PlannedMS
	}
	return e, e.Attempt > endedAttempts(before) && c.Round() <= before.Round()+1 && len(c.Active()) > 0
}

// endedAttempts counts the attempts of the next round that have ended.
func endedAttempts(c *state.Contract) uint64 {
	if c.Plan != nil {
		return max(1, c.Attempt) - 1
	}
	return c.Attempt
}

// failedSessions finds sessions that have ended and should not have. What somebody did, such as a reset, the ledger has.
func failedSessions(before, c *state.Contract) (found []Event) {
	why, all := map[string]int{}, []*state.Session{}
	for id, s := range c.Sessions {
		was := before.Sessions[id]
		if was == nil || was.State == state.SessionEnded || s.State != state.SessionEnded {
			continue
		}
		switch s.EndReason {
		case state.EndFinished, state.EndReset, state.EndReplaced, state.EndBanned:
			continue
		}
		why[s.EndReason]++
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *state.Session) int { return cmp.Compare(a.Order, b.Order) })
	for _, s := range all {
		switch why[s.EndReason] {
		case 0: // told
		case 1:
			found = append(found, Event{Kind: SessionFailed, Node: s.Node, Count: s.Order + 1, Text: s.EndReason})
		default:
			found = append(found, Event{Kind: TrainingFailed, Count: s.Order + 1, Text: fmt.Sprintf("%d sessions: %s", why[s.EndReason], text.Line(s.EndReason))})
			why[s.EndReason] = 0
		}
	}
	return found
}
