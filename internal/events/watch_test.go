package events_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/events"
)

// line is an event in short.
func line(e events.Event) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%d %s %s %s %d/%d %s", e.AtMS, e.Kind, e.Node, e.Contract, e.Round, e.Attempt, e.Text)), " ")
}

// looks returns what is found in a state after another one.
func looks(before, after *state.State, caughtUp bool) string {
	var w events.Watcher
	w.Look(before, caughtUp)
	var found []string
	for _, e := range w.Look(after, caughtUp) {
		found = append(found, line(e))
	}
	return strings.Join(found, "\n")
}

// TestNodesThatFallSilent: each change of a node's life is found with the time that the state has of it, at first sight too; bans and
// registrations, which the ledger has, are not.
func TestNodesThatFallSilent(t *testing.T) {
	node := func(live bool, at int64, left string) *state.State {
		s := state.New()
		s.Nodes["sl-1"] = &state.Node{Name: "sl-1", Role: "sl", PeerID: "k", Live: live, LiveSinceMS: at, LeftReason: left}
		return s
	}
	banned := node(false, 9, "")
	banned.Bans = map[string]*state.Ban{"k": {PeerID: "k"}}
	for _, tt := range []struct {
		name          string
		before, after *state.State
		want          string
	}{
		{"registered", state.New(), node(true, 5, ""), ""},
		{"silent", node(true, 5, ""), node(false, 9, ""), "9 silent sl-1 0/0 role sl"},
		{"silent at first sight", state.New(), node(false, 9, ""), "9 silent sl-1 0/0 role sl"},
		{"back", node(false, 9, ""), node(true, 90_009, ""), "90009 back sl-1 0/0 role sl, silent for 90 s"},
		{"back after days", node(false, 9, ""), node(true, 1+3*86_400_000, ""), "259200001 back sl-1 0/0 role sl, silent for 72 h"},
		{"left", node(true, 5, ""), node(false, 9, "its work is done"), "9 left sl-1 0/0 its work is done"},
		{"back after it left", node(false, 9, "its work is done"), node(true, 90_009, ""), "90009 back sl-1 0/0 role sl"},
		{"registered again", node(true, 5, ""), node(true, 6, ""), ""},
		{"banned", node(true, 5, ""), banned, ""},
		{"gone", node(true, 5, ""), state.New(), ""},
	} {
		for _, caughtUp := range []bool{true, false} {
			if got := looks(tt.before, tt.after, caughtUp); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	}
}

// TestWhatHappensToAContract: attempts that fail, rounds that are skipped, models that are lost, sessions that fail; each once.
func TestWhatHappensToAContract(t *testing.T) {
	open := map[string]*state.Session{"a": {ID: "a", Node: "sl-1", Run: 1, State: state.SessionOpen}, "b": {ID: "b", Node: "sl-2", Run: 1, Order: 1, State: state.SessionOpen}}
	ended := func(a, b string) map[string]*state.Session {
		out := map[string]*state.Session{}
		for id, why := range map[string]string{"a": a, "b": b} {
			s := *open[id]
			if s.EndReason = why; why != "" {
				s.State = state.SessionEnded
			}
			out[id] = &s
		}
		return out
	}
	contract := func(c state.Contract) *state.State {
		s := state.New()
		c.Name = "c"
		if c.Run == 0 {
			c.Run = 1
		}
		if c.Sessions == nil {
			c.Sessions = open
		}
		s.Contracts["c"] = &c
		return s
	}
	plan := func(attempt uint64) state.Contract {
		return state.Contract{Attempt: attempt, Plan: &state.Plan{Round: 7, Attempt: attempt, PlannedMS: int64(attempt)}, Committed: &state.CommittedRound{Round: 6}}
	}
	why := func(c state.Contract, reason string) state.Contract { c.PendingReason = reason; return c }
	cancelled := why(plan(2), "sl-2 is lost")
	cancelled.Plan = nil
	skipped := why(cancelled, "two owners may have it")
	skipped.Skips = &state.Skips{Count: 1, Round: 7, Reason: "two owners may have it", AtMS: 50}
	lost := plan(0)
	lost.Plan, lost.Lost = nil, &state.LostModel{Round: 6, AtMS: 60}
	failed := why(cancelled, "failed: too few")
	failed.Sessions = ended("failed: too few", "failed: too few")
	one := plan(1)
	one.Sessions = ended("failed: exit code 1", "")
	fine := plan(1)
	fine.Sessions = ended(state.EndFinished, state.EndReplaced)
	other := plan(1)
	other.Run, other.Sessions = 2, ended("reset", "lost")
	for _, tt := range []struct {
		name          string
		before, after state.Contract
		want          string
	}{
		{"nothing", plan(1), plan(1), ""},
		{"first attempt", state.Contract{Committed: &state.CommittedRound{Round: 6}}, plan(1), ""},
		{"repeated", plan(1), why(plan(2), "sl-2 is lost"), "2 attempt_failed c 7/1 sl-2 is lost"},
		{"given up", plan(2), cancelled, "0 attempt_failed c 7/2 sl-2 is lost"},
		{"planned after it was given up", cancelled, why(plan(3), "sl-2 is lost"), ""},
		{"committed", plan(2), state.Contract{Committed: &state.CommittedRound{Round: 7, Attempt: 2}}, ""},
		{"committed, and a failure was not seen", plan(1), state.Contract{Committed: &state.CommittedRound{Round: 7, Attempt: 2}}, "0 attempt_failed c 7/1"},
		{"skipped", plan(2), skipped, "50 round_skipped c 7/0 two owners may have it"},
		{"lost", plan(0), lost, "60 model_lost c 6/0 " + lost.Lost.String()},
		{"all sessions failed", plan(2), failed, "0 training_failed c 0/0 2 sessions: failed: too few"},
		{"one session failed", plan(1), one, "0 session_failed sl-1 c 0/0 failed: exit code 1"},
		{"ended well", plan(1), fine, ""},
		{"another run", plan(1), other, ""},
	} {
		if got := looks(contract(tt.before), contract(tt.after), true); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if got := looks(contract(tt.before), contract(tt.after), false); got != "" && strings.HasPrefix(got, "0 ") {
			t.Errorf("%s: %q is told while this SN catches up, and nobody knows when it was", tt.name, got)
		}
	}
}
