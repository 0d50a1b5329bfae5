package client_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// recovered is a swarm that an SVID of this path recovers, after those recoveries.
func (s *swarm) recovered(path, node string, before ...ledger.Recovery) (*swarm, ledger.Recovery) {
	s.t.Helper()
	out := &swarm{t: s.t, authority: s.authority, core: must(rpctest.NewCore(swarmID, "sn-0"))(s.t), lead: s.lead}
	source := s.source(path)
	svid := must(source.GetX509SVID())(s.t)
	r := ledger.Recovery{
		SwarmID: swarmID, Epoch: uint64(len(before) + 2), Node: node, PeerID: "id" + strings.ReplaceAll(node, "-", ""), LastIndex: 9, By: svid.ID.String(),
		AskedMS: svid.Certificates[0].NotBefore.UnixMilli() + 1000, Chain: identity.RawChain(svid),
	}
	if n := len(before); n > 0 {
		r.Previous = before[n-1].Digest()
	}
	r.Signature = must(identity.SignWithSVID(svid, identity.RecoveryMessage(r.Statement())))(s.t)
	for _, x := range append(before, r) {
		must(out.core.Propose(s.t.Context(), state.RecoverSwarm{Recovery: x}))(s.t)
	}
	return out, r
}

// TestALaterEpochIsFollowed: a client whose SNs are gone goes on with the one that was recovered, and with none of before again.
func TestALaterEpochIsFollowed(t *testing.T) {
	s := newSwarm(t, swarmID)
	old := s.start("sn-0")
	second, r := s.recovered("/swarm/swci", "sn-1")
	third, _ := s.recovered("/swarm/swci", "sn-1", r)
	a, b := second.start("sn-1"), third.start("sn-1")
	for name, c := range map[string]struct {
		sns  []string
		want uint64
	}{
		"the next epoch":                      {[]string{freePort(t), a.addr}, 2},
		"two epochs later":                    {[]string{freePort(t), b.addr}, 3},
		"beside one of the old ones":          {[]string{old.addr, freePort(t), a.addr}, 1}, // which still answers
		"beside one of the old ones, alone":   {[]string{a.addr, freePort(t), old.addr}, 2},
		"of two recoveries the later one":     {[]string{freePort(t), a.addr, b.addr}, 2},
		"most of those that it knows are old": {[]string{a.addr, old.addr, s.start("sn-2").addr}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var told []epoch.Pin
			cl := s.pinnedTo("/swarm/sl/sl-0", func(cfg *client.Config) { cfg.OnFollow = func(p epoch.Pin) { told = append(told, p) } }, c.sns...)
			if _, err := cl.ListNodes(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := cl.Pin(); got.Number() != c.want || (len(told) > 0) != (c.want > 1) {
				t.Errorf("follows %v, told of %v, want epoch %d", got, told, c.want)
			}
		})
	}
}

// TestALaterEpochThatNobodyProves: what an SN that lies may show.
func TestALaterEpochThatNobodyProves(t *testing.T) {
	s := newSwarm(t, swarmID)
	stranger := &swarm{t: t, authority: must(rpctest.NewAuthority("hospital.example"))(t), lead: s.lead}
	bySN, _ := s.recovered("/swarm/sn", "sn-1")
	byStranger, _ := stranger.recovered("/swarm/swci", "sn-1")
	byStranger.authority = s.authority
	first, r1 := s.recovered("/swarm/swci", "sn-1")
	second, _ := s.recovered("/swarm/swci", "sn-2")
	for name, c := range map[string]struct {
		pinned string
		sn     *sn
		want   string
	}{
		"signed by an SN":                      {swarmID, bySN.start("sn-1"), "is not the operator that it names"},
		"signed by a stranger":                 {swarmID, byStranger.start("sn-1"), "the recovery is not proven"},
		"another recovery to the same epoch":   {epoch.Of(swarmID, []ledger.Recovery{r1}).String(), second.start("sn-2"), "another recovery of the swarm to epoch 2"},
		"the epoch before, after it was left":  {epoch.Of(swarmID, []ledger.Recovery{r1}).String(), s.start("sn-0"), "of epoch 1 of the swarm, which was recovered as epoch 2"},
		"the recovery that it follows already": {epoch.Of(swarmID, []ledger.Recovery{r1}).String(), first.start("sn-1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			said := ""
			cl := s.pinnedTo("/swarm/sl/sl-0", func(cfg *client.Config) {
				cfg.SwarmID, cfg.OnStay = c.pinned, func(_, why string) { said = why }
			}, c.sn.addr)
			_, err := cl.ListNodes(t.Context())
			if err != nil {
				said += " " + err.Error()
			}
			if (err == nil) != (c.want == "") || !strings.Contains(said, c.want) || cl.Pin().String() != c.pinned {
				t.Errorf("follows %v, said %q", cl.Pin(), said)
			}
		})
	}
}

// TestSuperseded: what an SN of an old epoch asks of those that it knew.
func TestSuperseded(t *testing.T) {
	s := newSwarm(t, swarmID)
	second, _ := s.recovered("/swarm/swci", "sn-1")
	lying, _ := s.recovered("/swarm/sn", "sn-2")
	old, next, liar := s.start("sn-0"), second.start("sn-1"), lying.start("sn-2")
	ask := func(sns ...string) string {
		cl := s.pinnedTo("/swarm/sn/sn-3", func(cfg *client.Config) { cfg.Log = slog.New(slog.DiscardHandler) }, sns...)
		return cl.Superseded(t.Context()).SN
	}
	if by := ask(old.addr, liar.addr, freePort(t)); by != "" {
		t.Errorf("superseded by the word of %s", by)
	}
	if by := ask(old.addr, liar.addr, next.addr); by != next.addr {
		t.Errorf("superseded by the word of %q, want %s", by, next.addr)
	}
}

// TestAMajorityIsNotSuperseded: what an SN of three hears when one other was recovered as if these were lost.
func TestAMajorityIsNotSuperseded(t *testing.T) {
	s := newSwarm(t, swarmID)
	second, _ := s.recovered("/swarm/swci", "sn-2")
	old, next := s.start("sn-1"), second.start("sn-2")
	for _, c := range []struct {
		sns  []string
		most bool
	}{{[]string{old.addr, next.addr}, true}, {[]string{freePort(t), next.addr}, false}} {
		cl := s.pinnedTo("/swarm/sn/sn-0", func(cfg *client.Config) { cfg.Log = slog.New(slog.DiscardHandler) }, c.sns...)
		if l := cl.Superseded(t.Context()); l.SN != next.addr || l.Most != c.most || c.most != slices.Contains(l.Still, old.addr) {
			t.Errorf("it hears %+v, want a majority: %t", l, c.most)
		}
	}
}
