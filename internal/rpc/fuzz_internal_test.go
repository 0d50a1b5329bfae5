package rpc

import (
	"strings"
	"testing"
	"unicode"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/round/onwire"
)

// wire encodes a seed.
func wire(f *testing.F, m proto.Message) []byte {
	f.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzReport takes a node's heartbeat as the leader does, up to what it remembers of it: that has bounds, and can be shown.
func FuzzReport(f *testing.F) {
	f.Add(wire(f, &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{
		Session: "s", Contract: "c", Run: 1, Ready: &swarmv1.Ready{Seq: 1, Weight: 100, BaseDigest: "d"},
		Done:     &swarmv1.Done{Round: 1, Attempt: 1, ShardDigests: []string{"x"}, UpdateSquares: []float64{1}, Claims: []*swarmv1.MergeClaim{{Merged: make([]byte, 32), Inputs: []*swarmv1.MergeInput{{Digest: make([]byte, 32)}}}}},
		Failed:   &swarmv1.Failed{Reason: strings.Repeat("\u202e<", 300), Blamed: "n", HeardFrom: "m"},
		Progress: &swarmv1.Progress{Phase: "a\nb\x1b[0m"}, Held: []*swarmv1.HeldModel{{Digest: strings.Repeat("d", 200)}},
	}}, Health: &swarmv1.NodeHealth{}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &swarmv1.ReportRequest{}
		if proto.Unmarshal(b, m) != nil || checkReport(m) != nil {
			return
		}
		for _, x := range m.GetSessions() {
			r := reportFromProto("node", x)
			if r.Ready != nil && (r.Ready.Weight > state.MaxWeight || len(r.Ready.BaseDigest) > maxShortText) {
				t.Errorf("ready %+v", r.Ready)
			}
			if len(r.Held) > maxHeld {
				t.Errorf("%d models are held", len(r.Held))
			}
			for _, h := range r.Held {
				if len(h.Digest) > maxShortText || len(h.State) > maxShortText {
					t.Errorf("held %+v", h)
				}
			}
			if d, err := onwire.FromDone(x.GetDone()); err == nil && d != nil && len(d.Claims) > maxShards {
				t.Errorf("%d claims", len(d.Claims))
			}
			if r.Failed != nil {
				shown(t, r.Failed.Reason, maxReason)
			}
			if r.Progress != nil {
				shown(t, r.Progress.Phase, maxShortText)
			}
		}
	})
}

// shown holds a text of a peer to what may be printed. A character that can't be becomes one of another length, so that the
// bound is one of characters.
func shown(t *testing.T, s string, limit int) {
	t.Helper()
	if n := len([]rune(s)); n > limit || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != unicode.ReplacementChar }) {
		t.Errorf("%q of %d characters", s, n)
	}
}

// FuzzNode registers what a node tells of itself: what the state takes can be read back.
func FuzzNode(f *testing.F) {
	f.Add(wire(f, &swarmv1.Node{Name: "sl-0", Role: naming.RoleSL, SpiffeId: "spiffe://d/swarm/sl", PeerId: "p", Host: "h", ApiPort: 30304, Runtime: "docker"}))
	f.Add(wire(f, &swarmv1.Node{Name: "\x00", Host: strings.Repeat("<", 300), P2PPort: 65536}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &swarmv1.Node{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		n, err := nodeFromProto(m)
		if err != nil {
			return
		}
		kept(t, state.RegisterNode{Node: n, TokenHash: strings.Repeat("1", 64)})
	})
}

// FuzzRules makes a contract with rules as they come over the wire.
func FuzzRules(f *testing.F) {
	f.Add(wire(f, &swarmv1.Rules{Method: "krum(f=1)", MinPeers: 5, ExpectedPeers: 9, Required: []string{"b", "a", "a"}, MinWeightShare: 1. / 3, WeightCap: 0.5, NonFinite: "fail", QuorumWaitMs: 1}))
	f.Add(wire(f, &swarmv1.Rules{Method: " Mean ( wire = float16 ) ", MinWeightShare: 1e-300}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &swarmv1.Rules{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		r, err := rulesFromProto(m)
		if err != nil {
			return
		}
		if r.MinWeightSharePPM > state.PPM || r.WeightCapPPM > state.PPM || len(r.Required) > state.MaxRequired {
			t.Errorf("%+v", r)
		}
		kept(t, state.CreateContract{Contract: "c", Rules: r})
	})
}

// kept applies a command; a state that took it can be written and read.
func kept(t *testing.T, c state.Command) {
	t.Helper()
	s, _, err := state.New().Apply(c)
	if err != nil {
		if state.ReasonOf(err) == "" {
			t.Errorf("%+v: an error without a reason: %v", c, err)
		}
		return
	}
	b, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	if _, err := state.DecodeSnapshot(b); err != nil {
		t.Errorf("%+v: %v", c, err)
	}
}
