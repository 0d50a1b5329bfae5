package rpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
)

func (p *peer) ban(ctx context.Context, name, reason string) (*swarmv1.Ban, error) {
	res, err := p.nodes().BanNode(ctx, signed(p, &swarmv1.BanNodeRequest{Name: name, Reason: reason}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetBan(), nil
}

func (p *peer) unban(ctx context.Context, name string) error {
	_, err := p.nodes().UnbanNode(ctx, signed(p, &swarmv1.UnbanNodeRequest{Name: name}))
	return err
}

func TestBannedNodeIsRefusedEverything(t *testing.T) {
	s := newSwarm(t)
	a, b := s.as("/swarm/sl"), s.as("/swarm/sl")
	key := nodeKey(t)
	a.register(t, "sl-a", key)
	b.register(t, "sl-b", nodeKey(t))
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 2)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := a.sessions().WatchContract(ctx, with(a, &swarmv1.WatchContractRequest{Contract: "study"}))
	if err != nil || !stream.Receive() {
		t.Fatalf("watch: %v, %v", err, stream.Err())
	}
	operator := s.as("/swarm/swci")
	got, err := operator.ban(ctx, "sl-a", "key\ncopied")
	if err != nil || got.GetName() != "sl-a" || got.GetReason() != "key copied" || got.GetBy() != "spiffe://hospital.example/swarm/swci" || got.GetAtUnixMs() == 0 {
		t.Fatalf("ban: %v, %v", got, err)
	}
	for stream.Receive() {
	}
	wantReason(t, "running watch", stream.Err(), "BANNED")
	wantReason(t, "report", report(t, a), "BANNED")
	_, err = a.open(t, idB, wireTerms(layout(t, 100), 2))
	wantReason(t, "open", err, "BANNED")
	for _, name := range []string{"sl-a", "sl-c"} {
		p := s.as("/swarm/sl")
		m := p.registration(t, name, "sl", key)
		_, err := p.nodes().Register(t.Context(), with(p, m))
		wantReason(t, "register as "+name, err, "BANNED")
		if err == nil || !strings.Contains(err.Error(), "key copied") {
			t.Errorf("the ban's reason is not told: %v", err)
		}
	}
	again, err := operator.ban(ctx, "sl-a", "other words")
	if err != nil || !proto.Equal(again, got) {
		t.Errorf("again: %v, %v", again, err)
	}
	if err := report(t, b); err != nil {
		t.Errorf("another node: %v", err)
	}
	if err := operator.unban(ctx, "sl-a"); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "the token of before", report(t, a), "TOKEN_REFUSED")
	a.register(t, "sl-a", key)
	if err := report(t, a); err != nil {
		t.Error(err)
	}
}

func TestBansByNameAndKey(t *testing.T) {
	s := newSwarm(t)
	ctx := t.Context()
	p := s.as("/swarm/swci")
	s.as("/swarm/sl").register(t, "sl-a", nodeKey(t))
	first := s.core.View().Nodes["sl-a"].PeerID
	_, err := p.ban(ctx, "sl-9", "")
	wantReason(t, "ban of nobody", err, "NODE_UNKNOWN")
	wantReason(t, "unban of nobody", p.unban(ctx, "sl-9"), "NODE_UNKNOWN")
	_, err = p.ban(ctx, "sl-a", strings.Repeat("x", 300))
	wantReason(t, "long reason", err, "BAD_REQUEST")
	_, err = p.ban(ctx, "sn-0", "")
	wantReason(t, "the only SN", err, "LAST_SN")
	if err := p.unban(ctx, "sl-a"); err != nil {
		t.Errorf("unban of a node that is not banned: %v", err)
	}
	if _, err := p.ban(ctx, "sl-a", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := p.nodes().ForgetNode(ctx, signed(p, &swarmv1.ForgetNodeRequest{Name: "sl-a"})); err != nil {
		t.Fatal(err)
	}
	if got, err := p.ban(ctx, "sl-a", ""); err != nil || got.GetPeerId() != first {
		t.Errorf("ban of a forgotten node that is banned: %v, %v", got, err)
	}
	s.as("/swarm/sl").register(t, "sl-a", nodeKey(t)) // the name is free for another key
	second := s.core.View().Nodes["sl-a"].PeerID
	if _, err := p.ban(ctx, second, "by key"); err != nil {
		t.Fatal(err)
	}
	res, err := p.nodes().ListNodes(ctx, with(p, &swarmv1.ListNodesRequest{}))
	if err != nil || len(res.Msg.GetBans()) != 2 || !res.Msg.GetNodes()[0].GetBanned() || res.Msg.GetNodes()[1].GetBanned() {
		t.Fatalf("list: %v, %v", res, err)
	}
	if err := p.unban(ctx, "sl-a"); err != nil || s.core.View().Banned(second) != nil || s.core.View().Banned(first) == nil {
		t.Errorf("unban means the node that has the name now: %v", err)
	}
	if _, err := p.ban(ctx, second, ""); err != nil {
		t.Fatal(err)
	}
	must(s.core.Propose(ctx, state.ForgetNode{Node: "sl-a"}))(t)
	err = p.unban(ctx, "sl-a")
	wantReason(t, "two bans of one name", err, "BAD_REQUEST")
	if err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) {
		t.Errorf("the keys are not named: %v", err)
	}
	for _, id := range []string{first, second, second} {
		if err := p.unban(ctx, id); err != nil {
			t.Errorf("unban %s: %v", id, err)
		}
	}
	if n := len(s.core.View().Bans); n != 0 {
		t.Errorf("%d bans are left", n)
	}
}

func TestHeartbeatsTellBans(t *testing.T) {
	s := newSwarm(t)
	a := s.as("/swarm/sl")
	a.register(t, "sl-a", nodeKey(t))
	seen := ""
	beat := func() []string {
		t.Helper()
		res, err := a.sessions().Report(t.Context(), with(a, &swarmv1.ReportRequest{BansSeen: seen}))
		if err != nil {
			t.Fatal(err)
		}
		if res.Msg.GetBansDigest() == seen && len(res.Msg.GetBannedPeerIds()) > 0 {
			t.Error("a list that was seen is sent again")
		}
		seen = res.Msg.GetBansDigest()
		return res.Msg.GetBannedPeerIds()
	}
	if got := beat(); len(got) != 0 || seen != "" {
		t.Errorf("no bans: %v, digest %q", got, seen)
	}
	must(s.core.Propose(t.Context(), state.BanNode{PeerID: "y"}))(t)
	must(s.core.Propose(t.Context(), state.BanNode{PeerID: "x"}))(t)
	if got := beat(); strings.Join(got, " ") != "x y" || seen == "" {
		t.Errorf("two bans: %v, digest %q", got, seen)
	}
	if got := beat(); len(got) != 0 || seen == "" {
		t.Errorf("unchanged: %v", got)
	}
	must(s.core.Propose(t.Context(), state.UnbanNode{PeerID: "y"}))(t)
	if got := beat(); strings.Join(got, " ") != "x" {
		t.Errorf("one was lifted: %v", got)
	}
	must(s.core.Propose(t.Context(), state.UnbanNode{PeerID: "x"}))(t)
	if beat(); seen != "" {
		t.Errorf("all were lifted: digest %q", seen)
	}
	_, err := a.sessions().Report(t.Context(), with(a, &swarmv1.ReportRequest{BansSeen: strings.Repeat("x", 1000)}))
	wantReason(t, "long digest", err, "BAD_REQUEST")
}

// TestReportsComeFromSNs: whoever passes heartbeats on is an SN of the swarm, and the node is not banned.
func TestReportsComeFromSNs(t *testing.T) {
	s := newSwarm(t)
	a := s.as("/swarm/sl")
	a.register(t, "sl-a", nodeKey(t))
	pass := func(from string) error { return s.passOn(a, from, &swarmv1.ReportRequest{}) }
	must(s.core.Propose(t.Context(), state.RegisterNode{Node: state.Node{Name: "sn-1", Role: "sn", PeerID: "sn-1"}, TokenHash: strings.Repeat("0", 64)}))(t)
	if err := pass("sn-1"); err != nil {
		t.Error(err)
	}
	for _, from := range []string{"sn-9", s.core.View().Nodes["sl-a"].PeerID} {
		if err := pass(from); reasonOf(err) != "ROLE_DENIED" {
			t.Errorf("report from %q: %v", from, err)
		}
	}
	must(s.core.Propose(t.Context(), state.BanNode{PeerID: s.core.View().Nodes["sl-a"].PeerID}))(t)
	if err := pass("sn-1"); reasonOf(err) != state.ReasonBanned {
		t.Errorf("report of a banned node: %v", err)
	}
}

// TestBannedSNsAreNotOffered: clients must not turn to them.
func TestBannedSNsAreNotOffered(t *testing.T) {
	s := newSwarm(t)
	must(s.core.Propose(t.Context(), state.RegisterNode{Node: state.Node{Name: "sn-1", Role: "sn", PeerID: "sn-1"}, TokenHash: strings.Repeat("0", 64)}))(t)
	p := s.as("/swarm/sl")
	if _, err := s.as("/swarm/swci").ban(t.Context(), "sn-1", ""); err != nil {
		t.Fatal(err)
	}
	res, err := p.nodes().Register(t.Context(), with(p, p.registration(t, "sl-a", "sl", nodeKey(t))))
	if err != nil || len(res.Msg.GetSns()) != 1 || res.Msg.GetSns()[0].GetName() != "sn-0" {
		t.Errorf("registration: %v, %v", res, err)
	}
}

// TestNameLikeAnotherKey has a node registered under the peer ID of another node: a ban of that peer ID means the key.
func TestNameLikeAnotherKey(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci")
	s.as("/swarm/sl").register(t, "sl-a", nodeKey(t))
	meant := s.core.View().Nodes["sl-a"].PeerID
	s.as("/swarm/sl").register(t, meant, nodeKey(t))
	got, err := p.ban(t.Context(), meant, "")
	if err != nil || got.GetPeerId() != meant || got.GetName() != "sl-a" {
		t.Errorf("banned %v, %v; want the key of sl-a", got, err)
	}
	must(s.core.Propose(t.Context(), state.BanNode{PeerID: s.core.View().Nodes[meant].PeerID}))(t)
	if err := p.unban(t.Context(), meant); err != nil || s.core.View().Banned(meant) != nil || len(s.core.View().Bans) != 1 {
		t.Errorf("unban by peer ID: %v, left %v", err, s.core.View().Bans)
	}
}
