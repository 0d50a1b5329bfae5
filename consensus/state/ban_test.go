package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

func TestBansAreBounded(t *testing.T) {
	s := applied(t, "register sl-0")
	for i := range state.MaxBans {
		s = mustApply(t, s, state.BanNode{PeerID: fmt.Sprintf("key-%d", i)})
	}
	next, _, err := s.Apply(state.BanNode{PeerID: "key-sl-0"})
	if got := state.ReasonOf(err); got != state.ReasonTooManyBans || next != s {
		t.Errorf("ban %d: %q (%v)", state.MaxBans+1, got, err)
	}
	if _, res, err := s.Apply(state.BanNode{PeerID: "key-7"}); err != nil || res.Changed {
		t.Errorf("a ban that stands already: %+v, %v", res, err)
	}
	s = mustApply(t, s, state.UnbanNode{PeerID: "key-7"})
	mustApply(t, s, state.BanNode{PeerID: "key-sl-0"})
}

func TestRefusedBans(t *testing.T) {
	tests := map[string]state.BanNode{
		"no key":          {},
		"long key":        {PeerID: strings.Repeat("k", 600)},
		"blank in key":    {PeerID: "a b"},
		"long reason":     {PeerID: "k", Reason: strings.Repeat("r", state.MaxBanReason+1)},
		"two lines":       {PeerID: "k", Reason: "a\nb"},
		"escape":          {PeerID: "k", Reason: "\x1b[2J"},
		"C1 control":      {PeerID: "k", Reason: "\u009b2J"},
		"long SPIFFE ID":  {PeerID: "k", By: strings.Repeat("b", 4096)},
		"blank SPIFFE ID": {PeerID: "k", By: "a b"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			s := state.New()
			if next, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonBadCommand || next != s {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestBanTakesTheTokens(t *testing.T) {
	s := applied(t, "register sl-0 token=1; register sl-0 token=2; ban key-sl-0 reason=copied")
	n := s.Nodes["sl-0"]
	if n.HasToken(hexOf("1", 64)) || n.HasToken(hexOf("2", 64)) || n.Live || n.LiveSinceMS != 3000 {
		t.Errorf("banned node %+v", n)
	}
	err := s.CheckBan("key-sl-0")
	if state.ReasonOf(err) != state.ReasonBanned || !strings.Contains(err.Error(), "copied") {
		t.Errorf("CheckBan = %v", err)
	}
	if err := s.CheckBan("key-sl-1"); err != nil {
		t.Errorf("CheckBan of another key = %v", err)
	}
}

// TestCheckFindsBrokenBans breaks one thing of a banned node in a fresh copy.
func TestCheckFindsBrokenBans(t *testing.T) {
	tests := map[string]func(s *state.State){
		"alive":       func(s *state.State) { s.Nodes["sl-0"].Live = true },
		"has a token": func(s *state.State) { s.Nodes["sl-0"].TokenHashes = []string{hexOf("1", 64)} },
		"has a session": func(s *state.State) {
			s.Bans["key-sl-1"] = &state.Ban{PeerID: "key-sl-1"}
			s.Nodes["sl-1"].Live, s.Nodes["sl-1"].TokenHashes = false, nil
		},
		"under another":  func(s *state.State) { s.Bans["x"] = s.Bans["key-sl-0"] },
		"nil":            func(s *state.State) { s.Bans["x"] = nil },
		"endless reason": func(s *state.State) { s.Bans["key-sl-0"].Reason = strings.Repeat("r", 1000) },
		"too many": func(s *state.State) {
			for i := range state.MaxBans {
				id := fmt.Sprint("k", i)
				s.Bans[id] = &state.Ban{PeerID: id}
			}
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := applied(t, enrolled+"; ban key-sl-0")
			if err := state.Check(s); err != nil {
				t.Fatal(err)
			}
			spoil(s)
			if state.Check(s) == nil {
				t.Error("Check finds nothing")
			}
		})
	}
}
