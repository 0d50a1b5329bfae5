package consensus_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/state"
)

// linksOf are links of a node to others, past its own Group: what a rogue SN may have.
func (s *swarm) linksOf(node *memNode) *peerconn.Pool {
	links := peerconn.New(func(ctx context.Context, address string) (net.Conn, error) {
		return node.Dial(ctx, address, consensus.ProtocolRPC)
	})
	s.t.Cleanup(links.Close)
	return links
}

// TestNoCommandHaltsTheSwarm: whoever has its way at the leader registers SLs that nobody has, whose keys are long in JSON, and commits a round of
// them. Its record would be longer than the ledger takes.
func TestNoCommandHaltsTheSwarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...).name
		if _, err := s.servers[leader].Propose(s.within(10*time.Second), state.BundleOf("a.example", [][]byte{{1}}, 1)); err != nil {
			t.Fatal(err)
		}
		propose := func(c state.Command) error {
			_, err := s.servers[leader].Propose(s.within(10*time.Second), c)
			return err
		}
		plan := state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, AtMS: 1}
		commit := state.CommitRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: strings.Repeat("d", 64), NextInterval: 1, AtMS: 1}
		for i := range 700 {
			node, session := fmt.Sprintf("fake-%d", i), fmt.Sprintf("%032x", i)
			register := registerSL(node)
			register.Node.PeerID = strings.Repeat("<", 500) + fmt.Sprint(i)
			taken := propose(register)
			if i == 0 && taken == nil {
				t.Error("a peer ID of 500 escapes was taken")
			}
			_ = propose(state.OpenSession{
				Session: session, Contract: "study", Node: node, SyncFrequency: 1, Weight: 1,
				Terms: state.Terms{LayoutDigest: strings.Repeat("a", 64), Layout: []byte("{}"), Leaves: 1, Method: "mean", MinPeers: 2},
			})
			plan.Participants = append(plan.Participants, state.Participant{Session: session, Node: node, Weight: 1, ShardFirst: min(uint64(i), 1)})
			if taken != nil && i > 2 {
				break // the others would be refused alike
			}
		}
		plan.Participants[0].ShardLeaves = 1
		for _, c := range []state.Command{plan, commit} {
			_, _ = s.servers[leader].Propose(s.within(10*time.Second), c)
		}
		s.propose(three[0], "sl-0")
		s.converged(three...)
		s.restart(three...)
		s.leader(three...)
		s.propose(three[1], "sl-1")
		s.converged(three...)
	})
}
