package notices_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/notices"
	"github.com/swarmd/swarmd/consensus/state"
)

const started = 5_000 // ms

// view is a state with one contract.
func view(change func(c *state.Contract)) *state.State {
	s := state.New()
	c := &state.Contract{Name: "c", Run: 1, Sessions: map[string]*state.Session{}}
	change(c)
	s.Contracts["c"] = c
	return s
}

func TestEachIsLoggedOnce(t *testing.T) {
	open := func(c *state.Contract) {
		c.Sessions["1"] = &state.Session{Node: "sl-1", State: state.SessionOpen, Isolation: "container, open: network lan"}
		c.Sessions["2"] = &state.Session{Node: "sl-2", State: state.SessionOpen, Isolation: "container, no network"}
		c.Sessions["3"] = &state.Session{Node: "sl-3", State: state.SessionEnded, Isolation: "container, open: network lan"}
	}
	for _, tt := range []struct {
		name   string
		change func(c *state.Contract)
		want   string // in the only line; empty: none
	}{
		{"isolation", open, "a peer's program is not isolated"},
		{"lost", func(c *state.Contract) { c.Lost = &state.LostModel{Round: 3, AtMS: started} }, "a committed model was lost"},
		{"adopted", func(c *state.Contract) { c.Adopted = &state.AdoptedRound{Round: 3, AtMS: started} }, "from a model that the SNs did not know"},
		{"lost before", func(c *state.Contract) { c.Lost = &state.LostModel{Round: 3, AtMS: started - 1} }, ""},
		{"adopted before", func(c *state.Contract) { c.Adopted = &state.AdoptedRound{Round: 3, AtMS: started - 1} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var words bytes.Buffer
			n := notices.New(slog.New(slog.NewTextHandler(&words, nil)), time.UnixMilli(started))
			n.Log(view(func(*state.Contract) {}))
			for range 2 {
				n.Log(view(tt.change))
			}
			if got := strings.Count(words.String(), "\n"); tt.want == "" && got > 0 || tt.want != "" && (got != 1 || !strings.Contains(words.String(), tt.want)) {
				t.Errorf("logged %q", words.String())
			}
		})
	}
}
