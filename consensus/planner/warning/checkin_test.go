package warning_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestAnchor: a peer that has finished is warned of from the second merge on in which its last weights count, if nobody chose that. The
// final merge is not the second.
func TestAnchor(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(c *state.Contract, s *state.Session)
		want   string // how the text begins; empty: nothing is wrong
	}{
		{"in the second merge", func(*state.Contract, *state.Session) {}, "sl-2 has finished; its last weights count 1/3 in every further merge; checkinModelOnTrainEnd='inactive' leaves them out"},
		{"in the first merge they are new", func(_ *state.Contract, s *state.Session) { s.ClosedRounds = 1 }, ""},
		{"as it chose", func(_ *state.Contract, s *state.Session) { s.CheckinFrom = "" }, ""},
		{"as its node has it", func(_ *state.Contract, s *state.Session) { s.CheckinFrom = state.CheckinFromNode }, ""},
		{"of a run before", func(_ *state.Contract, s *state.Session) { s.Run = 1 }, ""},
		{"with more weight", func(_ *state.Contract, s *state.Session) { s.Weight = 2 }, "sl-2 has finished; its last weights count 1/2 in"},
		{"with more weight than counts", func(c *state.Contract, s *state.Session) {
			s.Weight, c.Rules = 8, &state.Rules{WeightCapPPM: 400_000}
		}, "sl-2 has finished; its last weights count 2/5 in"},
		{"beside one that counts no more", func(c *state.Contract, _ *state.Session) {
			c.Sessions["b"].State, c.Sessions["b"].CheckinMode, c.Sessions["b"].ClosedRounds = state.SessionClosed, state.CheckinOnce, 1
		}, "sl-2 has finished; its last weights count 1/2 in"},
		{"beside one that contributes nothing", func(c *state.Contract, _ *state.Session) {
			c.Sessions["b"].State, c.Sessions["b"].CheckinMode = state.SessionClosed, state.CheckinInactive
		}, "sl-2 has finished; its last weights count 1/2 in"},
		{"the second of which is the final one", over(9, 9, 2), ""},
		{"the third of which is the final one", over(9, 9, 3), "sl-2 finished before the others; its last weights counted in 3 merges; "},
		{"but not in the final one", over(8, 9, 2), "sl-2 finished before the others; its last weights counted in 2 merges; "},
		{"in the final one alone", over(9, 9, 1), ""},
		{"when it has left", func(_ *state.Contract, s *state.Session) { s.State = state.SessionEnded }, "sl-2 finished before the others; its last weights counted in 2 merges; "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &state.Session{
				ID: "c", Node: "sl-2", Run: 2, Order: 3, Weight: 1, State: state.SessionClosed, Closed: true, CheckinMode: state.CheckinSnapshot,
				CheckinFrom: state.CheckinFromNone, ClosedRounds: 2,
			}
			c := &state.Contract{Run: 2, Sessions: map[string]*state.Session{
				"a": {ID: "a", Node: "sl-0", Run: 2, Order: 1, Weight: 1, State: state.SessionOpen},
				"b": {ID: "b", Node: "sl-1", Run: 2, Order: 2, Weight: 1, State: state.SessionOpen}, "c": s,
			}}
			tt.change(c, s)
			got := warning.Find(warning.Facts{Contract: c})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("got %+v, want nothing", got)
			case tt.want != "" && (len(got) != 1 || got[0].Reason != warning.Anchor || got[0].Node != "sl-2" || !strings.HasPrefix(got[0].Text, tt.want)):
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}

// over makes a contract's last round the final one, and the peer one whose last weights have counted in so many merges up to round.
func over(round, final, merges uint64) func(*state.Contract, *state.Session) {
	return func(c *state.Contract, s *state.Session) {
		c.Over, c.Committed = true, &state.CommittedRound{Round: final, Final: true}
		s.LastRound, s.ClosedRounds = round, merges
	}
}
