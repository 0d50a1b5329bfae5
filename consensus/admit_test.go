package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/state"
)

// formAdmitting founds a swarm on the first name whose operators admit SNs, and admits the others.
func (s *swarm) formAdmitting(names ...string) {
	s.t.Helper()
	first := s.start(names[0])
	init := state.InitSwarm{SwarmID: "swarm1", AtMS: 1, Founder: &state.Admission{Name: names[0], PeerID: "id" + names[0], AtMS: 1}}
	if err := first.Bootstrap(s.within(10*time.Second), init, register(names[0])); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range names[1:] {
		s.admit(names[0], name, "id"+name)
		s.join(name, names[0])
	}
	s.leader(names...)
}

func (s *swarm) admit(on, name, peerID string) {
	s.t.Helper()
	if _, err := s.servers[on].Propose(s.within(30*time.Second), state.AdmitNode{Node: name, PeerID: peerID, By: "spiffe://d/swarm/swci"}); err != nil {
		s.t.Fatal(err)
	}
}

// candidates are who waits, as the leader that a server knows remembers them.
func (s *swarm) candidates(on string) []admission.Candidate {
	s.t.Helper()
	name, _, ok := s.servers[on].Leader()
	if !ok || s.servers[name] == nil {
		s.t.Fatalf("%s knows no leader", on)
	}
	return s.servers[name].Candidates()
}

// asks has a server join until it is let in or refused.
func (s *swarm) asks(sv *server, req consensus.JoinRequest, via string) chan error {
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- sv.Join(ctx, []string{address(via)}, req) }()
	return done
}

// TestAnSNWaitsForAnOperator: until then it is no server, has none of the log and is not in the state. Which SN it asks does not
// matter, nor how long it takes.
func TestAnSNWaitsForAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		said := map[string]*lines{}
		s.logs = func(name string) slog.Handler {
			said[name] = &lines{}
			return slog.NewTextHandler(said[name], nil)
		}
		s.formAdmitting(three...)
		leader := s.leader(three...).name
		follower := others(three, leader)[0]
		d := s.start("d")
		done := s.asks(d, joinRequest("d"), follower)
		time.Sleep(10 * time.Minute)
		select {
		case err := <-done:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		if s.member(leader, "d") || s.servers[leader].View().Nodes["d"] != nil || d.HasState() || d.View().SwarmID != "" {
			t.Error("it is a server, or has some of the log")
		}
		const line = `msg="this SN waits until an operator admits it" on=d node=d type="swarmctl admit node d --peer-id idd"`
		if n := said["d"].count(line); n != 1 {
			t.Errorf("it says what to type %d times", n)
		}
		if n := said["d"].count("level=WARN"); n != 1 {
			t.Errorf("it warns %d times", n)
		}
		for _, on := range three {
			got := s.candidates(on)
			if len(got) != 1 || got[0].Name != "d" || got[0].PeerID != "idd" || got[0].Host != "d" || time.Since(time.UnixMilli(got[0].SinceMS)) < 9*time.Minute {
				t.Errorf("%s is told of %+v", on, got)
			}
		}
		if n := said[leader].count(`msg="an SN waits to be admitted"`); n != 1 {
			t.Errorf("the leader says %d times that it waits", n)
		}
		if n := said[follower].count("join refused"); n != 0 {
			t.Errorf("the SN that is asked says %d times that it refuses", n)
		}
		s.admit(follower, "d", "idd")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		s.until("a vote", func() bool { return s.votes(leader, "d") })
		if n := len(s.candidates(leader)); n != 0 {
			t.Errorf("%d candidates wait", n)
		}
		// A member's restart asks nobody.
		s.stop("d")
		d = s.start("d")
		if err := d.Join(s.within(20*time.Second), []string{address(leader)}, joinRequest("d")); err != nil {
			t.Error(err)
		}
	})
}

func (s *swarm) votes(on, name string) bool {
	for _, sv := range s.servers[on].Servers() {
		if sv.Name == name && sv.Voter {
			return true
		}
	}
	return false
}

// TestAdmissionIsOfNameAndKey: nobody slips in under an admitted name, before or after its owner.
func TestAdmissionIsOfNameAndKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.formAdmitting(three...)
		leader := s.leader(three...).name
		s.admit("a", "d", "idd") // before it asks
		cfg := s.config("x")
		cfg.Name = "d"
		x := s.startWith(cfg)
		delete(s.servers, "d")
		s.servers["x"] = x
		posing := joinRequest("x")
		posing.Name, posing.Register.Node.Name = "d", "d"
		done := s.asks(x, posing, leader)
		time.Sleep(time.Minute)
		if s.member(leader, "d") || s.servers[leader].View().Nodes["d"] != nil {
			t.Error("another key took the name")
		}
		if got := s.candidates(leader); len(got) != 1 || got[0].PeerID != "idx" {
			t.Errorf("waiting: %+v", got)
		}
		s.join("d", "b")
		var refusal *consensus.JoinRefusal
		if err := <-done; !errors.Is(err, consensus.ErrRefused) || !errors.As(err, &refusal) || refusal.Reason != state.ReasonNameTaken {
			t.Errorf("%v, want a refusal for good", err)
		}
	})
}

// TestABanEndsTheWait whether the join tells it or the connection.
func TestABanEndsTheWait(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprint("by the connection: ", refused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				s.formAdmitting("a")
				cfg := s.config("d")
				banned := func() error { return s.servers["a"].View().CheckBan("idd") }
				if refused {
					cfg.Network = refusing{cfg.Network, banned}
				}
				done := s.asks(s.startWith(cfg), joinRequest("d"), "a")
				time.Sleep(time.Minute)
				if _, err := s.servers["a"].Propose(s.within(time.Minute), state.BanNode{PeerID: "idd", Reason: "stolen", By: "spiffe://d/swarm/swci"}); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-done:
					if err == nil || !strings.Contains(err.Error(), "is banned: stolen") {
						t.Error(err)
					}
				case <-time.After(time.Minute):
					t.Fatal("it waits on")
				}
			})
		})
	}
}

// refusing is a network whose other end refuses connections.
type refusing struct {
	consensus.Network
	why func() error
}

func (r refusing) Dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	if err := r.why(); err != nil {
		return nil, fmt.Errorf("refused by the peer: %w", errors.New(err.Error()))
	}
	return r.Network.Dial(ctx, address, protocol)
}

// TestWhoIsForgottenOrBannedAsksAgain: the server is taken out of the configuration, and comes back by another order only.
func TestWhoIsForgottenOrBannedAsksAgain(t *testing.T) {
	for name, takeBack := range map[string]func(node string) []state.Command{
		"forgotten": func(node string) []state.Command {
			return []state.Command{state.SetLive{Node: node}, state.ForgetNode{Node: node}}
		},
		"banned": func(node string) []state.Command {
			return []state.Command{state.BanNode{PeerID: "id" + node, By: "spiffe://d/swarm/swci"}, state.UnbanNode{PeerID: "id" + node}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				all := []string{"a", "b", "c", "d"}
				s.formAdmitting(all...)
				leader := s.leader(all...)
				node := others(all, leader.name)[2]
				for _, c := range takeBack(node) {
					if _, err := leader.Propose(s.within(time.Minute), c); err != nil {
						t.Fatal(err)
					}
				}
				s.until("it to be out", func() bool { return !s.member(leader.name, node) })
				time.Sleep(5 * time.Minute)
				if s.member(leader.name, node) {
					t.Error("it is back by itself")
				}
				if got := s.candidates(leader.name); len(got) != 1 || got[0].PeerID != "id"+node {
					t.Errorf("waiting: %+v", got)
				}
				s.admit(leader.name, node, "id"+node)
				s.until("it to vote again", func() bool { return s.votes(leader.name, node) })
			})
		})
	}
}

// TestAFloodOfCandidates does not fill the leader's memory, its time or the log, and an SN that is admitted joins through it.
func TestAFloodOfCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.formAdmitting(three...)
		leader := s.leader(three...)
		index, checked := leader.Index(), 0
		links := s.linksOf(s.net.nodes["id"+others(three, leader.name)[0]])
		send := func(r consensus.JoinRequest, from string) consensus.JoinResponse {
			t.Helper()
			resp, err := consensus.AskPassedJoin(s.within(30*time.Second), links, address(leader.name), consensus.Peer{PeerID: from, Role: "sn"}, r)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		for i := range 1000 {
			name := fmt.Sprint("x", i)
			s.net.node(consensus.Peer{PeerID: "id" + name, Role: "sn"})
			r := joinRequest(name)
			r.SwarmID, r.Nonce = "swarm1", send(consensus.JoinRequest{Name: name, Address: address(name)}, "id"+name).Nonce
			// One that is checked fails: this one signs nothing.
			switch resp := send(r, "id"+name); {
			case resp.Refused == nil:
				t.Fatal("let in")
			case resp.Refused.Reason == "SIGNATURE_REFUSED":
				checked++
			case resp.Refused.Reason != state.ReasonNotAdmitted:
				t.Fatal(resp.Refused)
			}
		}
		if checked > 100 || leader.Index() != index {
			t.Errorf("%d of 1000 were checked at once, %d commands", checked, leader.Index()-index)
		}
		s.admit("a", "d", "idd")
		s.join("d", "a")
	})
}

// TestOpenSwarmsAskNobody: it is as before, unless the founder has chosen otherwise.
func TestOpenSwarmsAskNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		if len(s.candidates("b")) > 0 || s.servers["a"].View().Admit != "" {
			t.Error("somebody waits")
		}
		if _, err := s.servers["a"].Propose(s.within(time.Minute), state.AdmitNode{Node: "d", PeerID: "idd"}); state.ReasonOf(err) != state.ReasonAdmissionOff {
			t.Error(err)
		}
	})
}
