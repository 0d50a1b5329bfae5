package consensus_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
)

// newDisk is a server's name with a new key and nothing on its disk, and the join that it asks with.
func (s *swarm) newDisk(name string) (consensus.Config, consensus.JoinRequest) {
	delete(s.stores, name)
	cfg := s.config(name)
	id := "id" + name + "-new"
	cfg.Address, cfg.Prover = consensus.FormatAddress(id, name+":30303"), prover{s.net, id}
	cfg.Network = s.net.node(consensus.Peer{PeerID: id, Role: "sn"})
	r := register(name)
	r.Node.PeerID = id
	return cfg, consensus.JoinRequest{Name: name, Address: cfg.Address, Register: r}
}

// dies stops a server for good and has it found dead, as the leader does after some seconds.
func (s *swarm) dies(name, leader string) {
	s.t.Helper()
	s.stop(name)
	s.net.Cut("id" + name)
	if _, err := s.servers[leader].Propose(s.within(30*time.Second), state.SetLive{Node: name}); err != nil {
		s.t.Fatal(err)
	}
}

// voters are the names of those who vote, as a server sees them.
func (s *swarm) voters(on string) (names []string) {
	for _, m := range s.servers[on].Servers() {
		if m.Voter {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestLostServerIsReplaced: the disk of one of three SNs is gone. Whatever order its ban, the order to forget it and its new start
// come in, the refusal's remedy works, and all that vote are servers that run.
func TestLostServerIsReplaced(t *testing.T) {
	forget := func(s *swarm, on string) error {
		_, err := s.servers[on].Propose(s.within(30*time.Second), state.ForgetNode{Node: "c"})
		return err
	}
	banIt := func(s *swarm, on string) error {
		_, err := s.servers[on].Propose(s.within(30*time.Second), ban("c"))
		return err
	}
	type step func(*swarm, string) error
	tests := map[string]struct {
		before, after []step // of its start
		admit         bool
	}{
		"forget, start":      {[]step{forget}, nil, false},
		"start, forget":      {nil, []step{forget}, false},
		"ban, start, forget": {[]step{banIt}, []step{forget}, false},
		"ban, forget, start": {[]step{banIt, forget}, nil, false},
		"forget, ban, start": {[]step{forget, banIt}, nil, false},
		"start, ban, forget": {nil, []step{banIt, forget}, false},
		"operators admit":    {nil, []step{forget}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				if tt.admit {
					s.formAdmitting(three...)
				} else {
					s.form(three...)
				}
				for s.leader(three...).name == "c" {
					s.stop("c")
					s.leader("a", "b")
					s.start("c")
				}
				leader := s.leader(three...).name
				s.dies("c", leader)
				do := func(steps []step) {
					for i, step := range steps {
						if err := step(s, []string{"a", "b"}[i%2]); err != nil {
							t.Fatal(err)
						}
					}
				}
				do(tt.before)
				cfg, req := s.newDisk("c")
				c := s.startWith(cfg)
				if len(tt.after) > 0 {
					err := c.Join(s.within(30*time.Second), []string{address("a")}, req)
					var refusal *consensus.JoinRefusal
					want := "choose another --name, or, if that node or its disk is gone for good: swarmctl forget node c"
					if !errors.As(err, &refusal) || refusal.Reason != state.ReasonNameTaken || refusal.Remedy != want || !errors.Is(err, consensus.ErrRefused) {
						t.Fatalf("its start: %v", err)
					}
					do(tt.after)
				}
				if tt.admit {
					s.admit(leader, "c", req.Register.Node.PeerID)
				}
				if err := c.Join(s.within(30*time.Second), []string{address("a")}, req); err != nil {
					t.Fatal(err)
				}
				s.until("three to vote", func() bool { return len(s.voters("a")) == 3 && len(s.voters("c")) == 3 })
				s.propose("c", "sl-0")
				s.converged(three...)
				if n := s.servers["a"].View().Nodes["c"]; n.PeerID != req.Register.Node.PeerID {
					t.Errorf("c is %s", n.PeerID)
				}
				s.stop(leader) // with the lost one's vote this would be the second of three
				rest := others(three, leader)
				s.leader(rest...)
				s.propose(rest[0], "sl-1")
			})
		})
	}
}

// TestForgottenServerCountsNoMore: who was forgotten leaves raft with it. Where that would cost the majority, it stays until it does not.
func TestForgottenServerCountsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...).name
		gone, rest := others(three, leader)[0], others(three, leader)[1]
		s.dies(gone, leader)
		if _, err := s.servers[rest].Propose(s.within(30*time.Second), state.ForgetNode{Node: rest}); state.ReasonOf(err) != state.ReasonNodeLive {
			t.Errorf("one that lives is forgotten: %v", err)
		}
		s.net.Cut("id" + rest)
		if _, err := s.servers[leader].Propose(s.within(3*time.Second), state.ForgetNode{Node: gone}); err == nil || !s.member(leader, gone) {
			t.Errorf("forgotten without a majority: %v", err)
		}
		s.net.Heal("id" + rest)
		leader = s.leader(leader, rest).name
		if _, err := s.servers[rest].Propose(s.within(30*time.Second), state.ForgetNode{Node: gone}); err != nil {
			t.Fatal(err)
		}
		if s.member(leader, gone) || s.servers[leader].View().Nodes[gone] != nil {
			t.Errorf("%s is in raft still: %v", gone, s.voters(leader))
		}
	})
}

// TestServerWithoutARecordIsExpelled: older versions forgot an SN and left its vote, which no list showed.
func TestServerWithoutARecordIsExpelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...).name
		gone := others(three, leader)[0]
		s.dies(gone, leader)
		if err := consensus.ProposeBare(s.servers[leader].Group, state.ForgetNode{Node: gone}); err != nil {
			t.Fatal(err)
		}
		s.until("its vote to go", func() bool { return !slices.Contains(s.voters(leader), gone) })
		s.propose(leader, "sl-0")
	})
}
