package proven_test

import (
	"crypto/rand"
	"math"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc/proven"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

const study = "study"

type signer struct {
	key  crypto.PrivKey
	node *state.Node
}

func newSigner(t *testing.T, name string) signer {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.PeerID(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, &state.Node{Name: name, PeerID: id.String()}}
}

func valid(peerID string, msg, sig []byte) bool {
	return identity.VerifyNodeSignature(peerID, msg, sig) == nil
}

// planned is a round of all of them, half of the leaves each, the second one's in two runs.
func planned(run, round uint64, of ...signer) *swarmv1.Plan {
	p := &swarmv1.Plan{Run: run, Round: round, Attempt: 2, Method: "mean", Epoch: 1, Witnesses: 2, LedgerHead: merge.Sum([]byte("head")).String()}
	for i, s := range of {
		part := &swarmv1.Participant{
			Session: "session", Node: s.node.Name, PeerId: s.node.PeerID, Weight: uint32(i + 1), Factor: 0.5,
			ShardFirst: uint64(4 * i), ShardLeaves: 4, SpiffeId: "spiffe://a.example/swarm/sl/" + s.node.Name,
		}
		if i == 1 {
			part.ShardLeaves, part.MoreShards = 2, []*swarmv1.LeafRun{{First: 6, Leaves: 2}}
		}
		p.Participants = append(p.Participants, part)
	}
	return p
}

// attests signs a round as an SL does after its merge, in the words of package exchange.
func (s signer) attests(t *testing.T, contract string, p *swarmv1.Plan) *swarmv1.RoundProof {
	t.Helper()
	digest := func(text string) merge.Digest { return merge.Sum([]byte(text)) }
	plan := exchange.Planned{Contract: contract, Run: p.Run, Round: p.Round, Method: p.Method, Layout: digest("layout"), Epoch: p.Epoch, Witnesses: int(p.Witnesses)}
	for _, m := range p.Participants {
		part := exchange.Participant{Node: m.PeerId, Session: m.Session, Weight: m.Weight, Factor: m.Factor, Unit: m.SpiffeId}
		part.Own(merge.Shard{First: int(m.ShardFirst), Leaves: int(m.ShardLeaves)})
		for _, r := range m.MoreShards {
			part.Own(merge.Shard{First: int(r.First), Leaves: int(r.Leaves)})
		}
		plan.Participants = append(plan.Participants, part)
	}
	out := exchange.Outcome{
		Contract: contract, Run: p.Run, Round: p.Round, Number: p.Attempt, Node: s.node.Name, ModelDigest: digest("model"), StateDigest: digest("state"),
		ShardsDigest: digest("shards"), Plan: plan.Digest(), Ledger: digest("head"),
	}
	sig, err := s.key.Sign(exchange.AttestationMessage(out))
	if err != nil {
		t.Fatal(err)
	}
	return &swarmv1.RoundProof{Plan: p, LayoutDigest: digest("layout").String(), Done: &swarmv1.Done{
		Round: p.Round, Attempt: p.Attempt, ModelDigest: out.ModelDigest.String(), StateDigest: out.StateDigest.String(),
		ShardsDigest: out.ShardsDigest.String(), Signature: sig,
	}}
}

// TestWhatNodesProve: only what a node has signed itself, of this contract's run, behind its last round.
func TestWhatNodesProve(t *testing.T) {
	a, b, stranger := newSigner(t, "sl-0"), newSigner(t, "sl-1"), newSigner(t, "sl-0")
	c := &state.Contract{Name: study, Run: 2, Committed: &state.CommittedRound{Round: 12}}
	genuine := a.attests(t, study, planned(2, 71, a, b))
	got, err := proven.Rounds(c, a.node, &swarmv1.SessionReport{Proofs: []*swarmv1.RoundProof{genuine}}, valid)
	if err != nil || len(got) != 1 || got[0].Round != 71 || got[0].Model != genuine.Done.ModelDigest || len(got[0].Participants[0].Signature) == 0 || len(got[0].Participants[1].Signature) > 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, tt := range map[string]struct {
		by   *state.Node
		make func() *swarmv1.RoundProof
		want string // empty: it counts for nothing
	}{
		"another's signature":  {b.node, func() *swarmv1.RoundProof { return genuine }, "sl-1 did not sign"},
		"a key of before":      {stranger.node, func() *swarmv1.RoundProof { return genuine }, "sl-0 took no part"},
		"a forged signature":   {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Done.Signature[3] ^= 1 }), "did not sign"},
		"no signature":         {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Done.Signature = nil }), "did not sign"},
		"another model":        {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Done.ModelDigest = merge.Sum(nil).String() }), "did not sign"},
		"another state":        {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Done.StateDigest = "" }), "did not sign"},
		"another round":        {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.Round, p.Done.Round = 99, 99 }), "did not sign"},
		"another attempt":      {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.Attempt, p.Done.Attempt = 3, 3 }), "did not sign"},
		"another plan":         {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.Participants[1].Weight++ }), "did not sign"},
		"another key":          {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.Participants[1].PeerId = stranger.node.PeerID }), "did not sign"},
		"another method":       {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.Method = "median" }), "did not sign"},
		"another layout":       {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.LayoutDigest = merge.Sum(nil).String() }), "did not sign"},
		"other shards":         {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Done.ShardsDigest = merge.Sum(nil).String() }), "did not sign"},
		"another past":         {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.LedgerHead = "" }), "did not sign"},
		"another contract":     {a.node, func() *swarmv1.RoundProof { return a.attests(t, "other", planned(2, 71, a, b)) }, "did not sign"},
		"a run of before":      {a.node, func() *swarmv1.RoundProof { return a.attests(t, study, planned(1, 71, a, b)) }, ""},
		"an old round":         {a.node, func() *swarmv1.RoundProof { return a.attests(t, study, planned(2, 12, a, b)) }, ""},
		"two rounds":           {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Done.Round++ }), "proves no other one"},
		"no digest":            {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Done.ModelDigest = "x" }), "is no digest"},
		"no factor":            {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.Participants[0].Factor = math.NaN() }), "factor of NaN"},
		"a long method":        {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.Method = strings.Repeat("x", 600) }), "too long"},
		"nothing":              {a.node, func() *swarmv1.RoundProof { return &swarmv1.RoundProof{} }, ""},
		"without participants": {a.node, changed(genuine, func(p *swarmv1.RoundProof) { p.Plan.Participants = nil }), "took no part"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := proven.Rounds(c, tt.by, &swarmv1.SessionReport{Proofs: []*swarmv1.RoundProof{tt.make()}}, valid)
			if len(got) > 0 || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func changed(from *swarmv1.RoundProof, fn func(p *swarmv1.RoundProof)) func() *swarmv1.RoundProof {
	return func() *swarmv1.RoundProof {
		p := proto.CloneOf(from)
		fn(p)
		return p
	}
}

// TestBounds: a report can't make the leader work for long.
func TestBounds(t *testing.T) {
	many := func(n, parts, runs, shards, sig int) (out []*swarmv1.RoundProof) {
		for range n {
			p := &swarmv1.RoundProof{Plan: &swarmv1.Plan{}, Done: &swarmv1.Done{ShardsDigest: strings.Repeat("a", shards), Signature: make([]byte, sig)}}
			for range parts {
				p.Plan.Participants = append(p.Plan.Participants, &swarmv1.Participant{MoreShards: make([]*swarmv1.LeafRun, runs)})
			}
			out = append(out, p)
		}
		return out
	}
	for _, tt := range []struct {
		all  []*swarmv1.RoundProof
		want bool
	}{
		{nil, true},
		{many(4, 1000, 4, 64, 64), true},
		{many(5, 1, 0, 0, 64), false},
		{many(1, 5000, 0, 0, 64), false},
		{many(1, 1, state.MaxRuns*4+1, 0, 64), false},
		{many(1, 1, 0, 600, 64), false},
		{many(1, 1, 0, 0, state.MaxSignature+1), false},
	} {
		if got := proven.Bounded(tt.all); got != tt.want {
			t.Errorf("%d rounds of %d participants: %t", len(tt.all), len(tt.all[0].GetPlan().GetParticipants()), got)
		}
	}
}

// TestBehind: nodes are asked for proofs by an SN that knows less than they hold, in the same run.
func TestBehind(t *testing.T) {
	view := &state.State{Contracts: map[string]*state.Contract{study: {
		Name: study, Run: 1, Committed: &state.CommittedRound{Round: 12}, Sessions: map[string]*state.Session{"known": {}},
	}}}
	for name, tt := range map[string]struct {
		contract, session string
		run, round        uint64
		prove             bool
		unknown           int
	}{
		"ahead":                     {study, "known", 1, 71, true, 0},
		"ahead, an unknown session": {study, "other", 1, 71, true, 1},
		"level":                     {study, "known", 1, 12, false, 0},
		"opened a moment ago":       {study, "other", 1, 12, false, 0},
		"another run":               {study, "known", 2, 71, false, 0},
		"a later run":               {study, "other", 2, 71, false, 1},
		"an earlier run":            {study, "other", 0, 71, false, 0},
		"another contract":          {"other", "known", 1, 71, false, 0},
	} {
		res := &swarmv1.ReportResponse{}
		proven.Behind(view, &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{
			Contract: tt.contract, Session: tt.session, Run: tt.run, Held: []*swarmv1.HeldModel{{Round: 1}, {Round: tt.round}},
		}}}, res)
		if res.Prove != tt.prove || len(res.UnknownSessions) != tt.unknown {
			t.Errorf("%s: %v", name, res)
		}
	}
}
