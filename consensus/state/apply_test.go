package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// applied returns the state after a script, whose lines must all be accepted.
func applied(t *testing.T, script string) *state.State {
	t.Helper()
	s := state.New()
	for i, line := range strings.Split(script, "; ") {
		next, _, err := s.Apply(parseCommand(t, s, line, int64(i+1)*1000))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		s = next
	}
	return s
}

const enrolled = "register sl-0; register sl-1; open 1 node=sl-0; open 2 node=sl-1"

func TestRefusedFields(t *testing.T) {
	s := applied(t, enrolled)
	good := everyCommand
	register, open, commit := good[1].(state.RegisterNode), good[4].(state.OpenSession), good[9].(state.CommitRound)
	open.Node = "sl-0"
	node := func(change func(*state.RegisterNode)) state.Command {
		c := register
		change(&c)
		return c
	}
	session := func(change func(*state.OpenSession)) state.Command {
		c := open
		change(&c)
		return c
	}
	tests := map[string]state.Command{
		"no swarm ID":       state.InitSwarm{},
		"bad node name":     node(func(c *state.RegisterNode) { c.Node.Name = "../etc" }),
		"long node name":    node(func(c *state.RegisterNode) { c.Node.Name = strings.Repeat("a", 64) }),
		"bad role":          node(func(c *state.RegisterNode) { c.Node.Role = "boss" }),
		"no peer ID":        node(func(c *state.RegisterNode) { c.Node.PeerID = "" }),
		"long host":         node(func(c *state.RegisterNode) { c.Node.Host = strings.Repeat("a", 600) }),
		"escape in host":    node(func(c *state.RegisterNode) { c.Node.Host = "10.0.0.1\x1b[2J" }),
		"blank in runtime":  node(func(c *state.RegisterNode) { c.Node.Runtime = "docker\nroot" }),
		"API of no port":    node(func(c *state.RegisterNode) { c.Node.APIService = "api.example" }),
		"API of a bad port": node(func(c *state.RegisterNode) { c.Node.APIService = "api.example:http" }),
		"API of port 0":     node(func(c *state.RegisterNode) { c.Node.APIService = "api.example:0" }),
		"API of no host":    node(func(c *state.RegisterNode) { c.Node.APIService = ":443" }),
		"API with a path":   node(func(c *state.RegisterNode) { c.Node.APIService = "api.example/x:443" }),
		"API of an SL": node(func(c *state.RegisterNode) {
			c.Node.Role, c.Node.SPIFFEID, c.Node.APIService = "sl", "spiffe://td/swarm/sl", "api.example:443"
		}),
		"bad token hash":      node(func(c *state.RegisterNode) { c.TokenHash = strings.Repeat("G", 64) }),
		"short session":       session(func(c *state.OpenSession) { c.Session = "1" }),
		"bad contract":        session(func(c *state.OpenSession) { c.Contract = "-x" }),
		"no interval":         session(func(c *state.OpenSession) { c.SyncFrequency = 0 }),
		"heavy":               session(func(c *state.OpenSession) { c.Weight = 101 }),
		"many samples":        session(func(c *state.OpenSession) { c.Terms.Weights, c.Weight = state.WeightsSamples, state.MaxSamples+1 }),
		"other weights":       session(func(c *state.OpenSession) { c.Terms.Weights = "bytes" }),
		"many expected":       session(func(c *state.OpenSession) { c.ExpectedPeers = 1 << 20 }),
		"bad mode":            session(func(c *state.OpenSession) { c.CheckinMode = "sleepy" }),
		"bad default mode":    session(func(c *state.OpenSession) { c.CheckinDefault = "sleepy" }),
		"bad curves":          state.CreateContract{Contract: "study", Rules: state.Rules{Curves: []string{"spiffe://a.example/other/x"}}},
		"curves of nobody":    state.CreateContract{Contract: "study", Rules: state.Rules{Curves: []string{"a.example/swarm/swci"}}},
		"curves twice":        state.CreateContract{Contract: "study", Rules: state.Rules{Curves: []string{"spiffe://a.example/swarm/swci", "spiffe://a.example/swarm/swci"}}},
		"bad mode by rule":    state.CreateContract{Contract: "study", Rules: state.Rules{CheckinDefault: "sleepy"}},
		"long isolation":      session(func(c *state.OpenSession) { c.Isolation = strings.Repeat("w", state.MaxIsolation+1) }),
		"two-line isolation":  session(func(c *state.OpenSession) { c.Isolation = "container\nopen" }),
		"escape in isolation": session(func(c *state.OpenSession) { c.Isolation = "container\x1b[2J" }),
		"bad digest":          session(func(c *state.OpenSession) { c.Terms.LayoutDigest = "zz" }),
		"huge layout":         session(func(c *state.OpenSession) { c.Terms.Layout = make([]byte, state.MaxLayoutBytes+1) }),
		"many leaves":         session(func(c *state.OpenSession) { c.Terms.Leaves = 1 << 40 }),
		"no minPeers":         session(func(c *state.OpenSession) { c.Terms.MinPeers = 0 }),
		"bad close mode":      state.CloseSession{Session: hexOf("1", 32), Contract: state.DefaultContract, Run: 1, CheckinMode: "sleepy"},
		"leave, no reason":    state.LeaveNode{Node: "sl-0", TokenHash: hexOf("1", 64)},
		"leave, long reason":  state.LeaveNode{Node: "sl-0", TokenHash: hexOf("1", 64), Reason: strings.Repeat("r", state.MaxLeaveReason+1)},
		"leave, two lines":    state.LeaveNode{Node: "sl-0", TokenHash: hexOf("1", 64), Reason: "stopped\n"},
		"leave, escapes":      state.LeaveNode{Node: "sl-0", TokenHash: hexOf("1", 64), Reason: "\x1b[2J"},
		"leave, no hash":      state.LeaveNode{Node: "sl-0", Reason: "stopped"},
		"no end reason":       state.EndSession{Session: hexOf("1", 32), Contract: state.DefaultContract, Run: 1},
		"bad model digest":    state.CommitRound{Contract: commit.Contract, Digest: "d", NextInterval: 1},
		"no next interval":    state.CommitRound{Contract: commit.Contract, Digest: commit.Digest},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			next, _, err := s.Apply(c)
			if got := state.ReasonOf(err); got != state.ReasonBadCommand || next != s {
				t.Errorf("reason %q (%v), state changed: %t", got, err, next != s)
			}
		})
	}
}

func TestTokensOfTwoRegistrationsAreValid(t *testing.T) {
	s := applied(t, "register sl-0 token=1; register sl-0 token=2; register sl-0 token=2; register sl-0 token=3")
	n := s.Nodes["sl-0"]
	for token, want := range map[string]bool{"1": false, "2": true, "3": true} {
		if got := n.HasToken(hexOf(token, 64)); got != want {
			t.Errorf("token %s: %t, want %t", token, got, want)
		}
	}
	if n.HasToken("") || n.LiveSinceMS != 1000 {
		t.Errorf("empty token valid, or live since %d", n.LiveSinceMS)
	}
}

func TestNodeIsNameKeyAndSPIFFEID(t *testing.T) {
	register := func(name, key, id string) state.Command {
		return state.RegisterNode{Node: state.Node{Name: name, Role: "sl", PeerID: key, SPIFFEID: id}, TokenHash: hexOf("1", 64)}
	}
	const shared, own = "spiffe://a.example/swarm/sl", "spiffe://a.example/swarm/sl/sl-0"
	tests := []struct {
		name       string
		was        string // SPIFFE ID of sl-0 with key-0
		then       state.Command
		wantReason string
	}{
		{"the same again", shared, register("sl-0", "key-0", shared), ""},
		{"an SVID of its own at last", shared, register("sl-0", "key-0", own), ""},
		{"stolen key with a shared SVID", own, register("sl-0", "key-0", shared), state.ReasonNameTaken},
		{"stolen key in another trust domain", own, register("sl-0", "key-0", "spiffe://b.example/swarm/sl/sl-0"), state.ReasonNameTaken},
		{"another key", own, register("sl-0", "key-1", own), state.ReasonNameTaken},
		{"one key, two names", shared, register("sl-1", "key-0", shared), state.ReasonKeyTaken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _, err := state.New().Apply(register("sl-0", "key-0", tt.was))
			if err != nil {
				t.Fatal(err)
			}
			next, _, err := s.Apply(tt.then)
			if got := state.ReasonOf(err); got != tt.wantReason {
				t.Errorf("reason %q (%v), want %q", got, err, tt.wantReason)
			}
			if (next == s) != (tt.wantReason != "") {
				t.Error("a refused registration changed the state, or an accepted one did not")
			}
		})
	}
}

func TestEndedSessionsAreBounded(t *testing.T) {
	s := applied(t, enrolled+"; plan with=1,2; commit; close 2; end 2")
	for i := range 2 * state.MaxEnded {
		next, _, err := s.Apply(parseCommand(t, s, fmt.Sprintf("open %d node=sl-0", 100+i), 9))
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	c := s.Contracts[state.DefaultContract]
	if got, want := len(c.Sessions), state.MaxEnded+2; got != want {
		t.Errorf("%d sessions are kept, want %d", got, want)
	}
	if c.Sessions[hexOf("2", 32)] == nil {
		t.Error("a session that counts as closed was forgotten")
	}
}

func TestTermsAreKeptOnce(t *testing.T) {
	c := applied(t, enrolled).Contracts[state.DefaultContract]
	if c.Terms == nil || string(c.Terms.Layout) != "a" {
		t.Fatalf("terms %+v", c.Terms)
	}
	for id, s := range c.Sessions {
		if s.Terms.Layout != nil {
			t.Errorf("session %s keeps a layout", id)
		}
	}
}

func TestMedianInterval(t *testing.T) {
	s := applied(t, enrolled)
	for i, at := range []int64{1000, 3000, 13000, 16000} {
		for _, c := range []state.Command{
			parseCommand(t, s, "plan with=1,2", at),
			state.CommitRound{Contract: state.DefaultContract, Run: 1, Round: uint64(i + 1), Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1, AtMS: at},
		} {
			next, _, err := s.Apply(c)
			if err != nil {
				t.Fatal(err)
			}
			s = next
		}
	}
	if got := s.Contracts[state.DefaultContract].MedianIntervalMS(); got != 3000 {
		t.Errorf("median %d, want 3000", got)
	}
}

// TestCheckFinds holds that a broken state is found: each case breaks one thing in a fresh copy.
func TestCheckFinds(t *testing.T) {
	tests := map[string]func(s *state.State, c *state.Contract){
		"no default contract": func(s *state.State, _ *state.Contract) { delete(s.Contracts, state.DefaultContract) },
		"node under another":  func(s *state.State, _ *state.Contract) { s.Nodes["x"] = s.Nodes["sl-0"] },
		"nil node":            func(s *state.State, _ *state.Contract) { s.Nodes["sl-0"] = nil },
		"second session":      func(_ *state.State, c *state.Contract) { c.Sessions[hexOf("2", 32)].Node = "sl-0" },
		"session of nobody":   func(_ *state.State, c *state.Contract) { c.Sessions[hexOf("2", 32)].Node = "x" },
		"nil session":         func(_ *state.State, c *state.Contract) { c.Sessions[hexOf("2", 32)] = nil },
		"bad state":           func(_ *state.State, c *state.Contract) { c.Sessions[hexOf("2", 32)].State = "asleep" },
		"ended for nothing":   func(_ *state.State, c *state.Contract) { c.Sessions[hexOf("2", 32)].State = state.SessionEnded },
		"other terms":         func(_ *state.State, c *state.Contract) { c.Sessions[hexOf("2", 32)].Terms.MinPeers = 9 },
		"over too early":      func(_ *state.State, c *state.Contract) { c.Over = true },
		"final too early":     func(_ *state.State, c *state.Contract) { c.FinalPending = true },
		"plan of the past":    func(_ *state.State, c *state.Contract) { c.Plan.Round = 1 },
		"plan with a gap":     func(_ *state.State, c *state.Contract) { c.Plan.Participants[1].ShardFirst++ },
		"plan too short":      func(_ *state.State, c *state.Contract) { c.Plan.Participants[1].ShardLeaves-- },
		"plan with too few":   func(_ *state.State, c *state.Contract) { c.Plan.Participants = c.Plan.Participants[:1] },
		"no run":              func(_ *state.State, c *state.Contract) { c.Run = 0 },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := applied(t, enrolled+"; plan with=1,2; commit; plan with=1,2")
			if err := state.Check(s); err != nil {
				t.Fatal(err)
			}
			spoil(s, s.Contracts[state.DefaultContract])
			if state.Check(s) == nil {
				t.Error("Check finds nothing")
			}
		})
	}
}
