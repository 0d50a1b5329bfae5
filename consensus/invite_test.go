package consensus_test

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/claim"
)

func secretOf(word string) []byte {
	sum := sha256.Sum256([]byte(word))
	return sum[:]
}

const invitedID = "spiffe://d/swarm/sn/d"

// invite makes an invitation of SN d with a secret, which ends after a time.
func (s *swarm) invite(on, word string, life time.Duration) {
	s.t.Helper()
	now := time.Now()
	_, err := s.servers[on].Propose(s.within(30*time.Second), state.InviteNode{
		Node: "d", SPIFFEID: invitedID, Key: claim.KeyOf(secretOf(word)), ExpiresMS: now.Add(life).UnixMilli(), By: "spiffe://d/swarm/swci", AtMS: now.UnixMilli(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// guest is the server of SN d on a host, whose node key that is, with an SVID.
func (s *swarm) guest(host, spiffeID string) *server {
	s.t.Helper()
	cfg := s.config(host)
	cfg.Name = "d"
	cfg.Network = s.net.node(consensus.Peer{PeerID: "id" + host, Role: "sn", SPIFFEID: spiffeID})
	other := s.servers["d"]
	sv := s.startWith(cfg)
	if delete(s.servers, "d"); other != nil {
		s.servers["d"] = other
	}
	s.servers[host] = sv
	return sv
}

// claiming is the request of SN d on a host that has a secret.
func claiming(host, word string) consensus.JoinRequest {
	r := joinRequest(host)
	r.Name, r.Register.Node.Name = "d", "d"
	r.Claim = claimOf(word, host)
	return r
}

func claimOf(word, host string) *consensus.Claim {
	return &consensus.Claim{Key: claim.KeyOf(secretOf(word)), Signature: claim.Sign(secretOf(word), "swarm1", "d", "id"+host)}
}

// TestAnInvitedSNJoinsByItself whichever SN it asks, and though the leader that the invitation was made with is gone.
func TestAnInvitedSNJoinsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		said := map[string]*lines{}
		s.logs = func(name string) slog.Handler {
			said[name] = &lines{}
			return slog.NewTextHandler(said[name], nil)
		}
		s.formAdmitting(three...)
		leader := s.leader(three...).name
		s.invite(leader, "d", time.Hour)
		s.stop(leader)
		rest := others(three, leader)
		next := s.leader(rest...).name
		follower := others(rest, next)[0]
		d := s.guest("d", invitedID)
		if err := d.Join(s.within(time.Minute), []string{address(follower)}, claiming("d", "d")); err != nil {
			t.Fatal(err)
		}
		s.until("a vote", func() bool { return s.votes(next, "d") })
		for _, a := range s.servers[next].View().Admissions() {
			if a.Name == "d" && (a.PeerID != "idd" || a.By != "spiffe://d/swarm/swci" || a.Invitation != 1) {
				t.Errorf("admitted: %+v", a)
			}
		}
		if n := said["d"].count("level=WARN") + said[next].count("an SN waits"); n != 0 {
			t.Errorf("%d warnings", n)
		}
		if n := said[next].count(`msg="an SN was admitted by its invitation"`); n != 1 {
			t.Errorf("the leader tells %d times of it", n)
		}
		admitted := s.servers[next].View().Admitted["idd"]
		s.stop("d") // a restart shows the invitation again, which changes nothing
		if err := s.guest("d", invitedID).Join(s.within(time.Minute), []string{address(follower)}, claiming("d", "d")); err != nil {
			t.Error(err)
		}
		if s.servers[next].View().Admitted["idd"] != admitted {
			t.Error("it was admitted again")
		}
		s.converged(next, follower, "d")
	})
}

// TestOfTwoKeysOneClaims: both have the secret, and ask two SNs at once.
func TestOfTwoKeysOneClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.formAdmitting(three...)
		leader := s.leader(three...)
		via := others(three, leader.name)
		s.invite(leader.name, "d", time.Hour)
		done := map[string]chan error{}
		for i, host := range []string{"d", "x"} {
			done[host] = s.asks(s.guest(host, invitedID), claiming(host, "d"), via[i])
		}
		s.until("one to join", func() bool { return s.member(leader.name, "d") })
		won, lost := "d", "x"
		if leader.View().Nodes["d"].PeerID == "idx" {
			won, lost = lost, won
		}
		if err := <-done[won]; err != nil {
			t.Error(err)
		}
		var refusal *consensus.JoinRefusal
		if err := <-done[lost]; !errors.As(err, &refusal) || refusal.Reason != state.ReasonNameTaken {
			t.Errorf("the other one: %v", err)
		}
		if a := leader.View().Admissions(); len(a) != 4 {
			t.Errorf("%d keys are admitted", len(a))
		}
	})
}

// TestInvitationsThatAdmitNobody: the SN says why, each in words of its own, and waits for an operator, whose word lets it in at once.
func TestInvitationsThatAdmitNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(s *swarm)
		word    string
		id      string
		want    string
	}{
		"used by another": {func(s *swarm) {
			c := claimOf("d", "thief")
			_, err := s.servers["a"].Propose(s.within(time.Minute), state.ClaimInvitation{
				Node: "d", PeerID: "idthief", SPIFFEID: invitedID, Key: c.Key, Signature: c.Signature, AtMS: time.Now().UnixMilli(),
			})
			if err != nil {
				s.t.Fatal(err)
			}
		}, "d", invitedID, "was used by another node, with key idthief: if that node is not yours somebody else has the line: swarmctl ban node idthief"},
		"expired":         {func(*swarm) { time.Sleep(2 * time.Hour) }, "d", invitedID, "the invitation of SN d has expired: ask an operator"},
		"replaced":        {func(s *swarm) { s.invite("a", "later", time.Hour) }, "d", invitedID, "another was made after it"},
		"unknown":         {func(*swarm) {}, "guessed", invitedID, "the swarm knows no such invitation of SN d"},
		"another SVID":    {func(*swarm) {}, "d", "spiffe://d/swarm/sn", "is for SPIFFE ID spiffe://d/swarm/sn/d, and not for spiffe://d/swarm/sn"},
		"never an invite": {func(s *swarm) { s.admit("a", "d", "idelse") }, "d", invitedID, "it was taken back"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				said := map[string]*lines{}
				s.logs = func(name string) slog.Handler {
					said[name] = &lines{}
					return slog.NewTextHandler(said[name], nil)
				}
				s.formAdmitting("a")
				s.invite("a", "d", time.Hour)
				tt.prepare(s)
				done := s.asks(s.guest("d", tt.id), claiming("d", tt.word), "a")
				time.Sleep(10 * time.Minute)
				if s.member("a", "d") || s.servers["a"].View().Nodes["d"] != nil {
					t.Fatal("it is let in")
				}
				if n := said["d"].count(tt.want); n != 1 {
					t.Errorf("it says why %d times", n)
				}
				const waits = `msg="this SN waits until an operator admits it" on=d node=d type="swarmctl admit node d --peer-id idd" invitation=`
				if n := said["d"].count(waits); n != 1 || said["d"].count("level=WARN") != 1 {
					t.Errorf("it says what to type %d times", n)
				}
				if n := said["a"].count(`msg="an SN waits to be admitted"`); n != 1 || len(s.candidates("a")) != 1 {
					t.Errorf("the leader says %d times that it waits", n)
				}
				s.admit("a", "d", "idd")
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAStolenClaimAdmitsNobody: an SN that passes a join on sees all that is in it, and has a node key and an SVID of its own.
func TestAStolenClaimAdmitsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.formAdmitting(three...)
		leader := s.leader(three...)
		bad := others(three, leader.name)[0]
		s.invite(leader.name, "d", time.Hour)
		s.net.node(consensus.Peer{PeerID: "idz", Role: "sn", SPIFFEID: invitedID})
		links := s.linksOf(s.net.nodes["id"+bad])
		send := func(r consensus.JoinRequest) consensus.JoinResponse {
			t.Helper()
			resp, err := consensus.AskPassedJoin(s.within(30*time.Second), links, address(leader.name), consensus.Peer{PeerID: r.Register.Node.PeerID, Role: "sn"}, r)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		seen := claiming("d", "d") // of the honest one
		forged := claiming("z", "guessed")
		forged.Claim = seen.Claim
		forged.SwarmID, forged.Nonce = "swarm1", send(consensus.JoinRequest{Name: "d", Address: address("z"), Register: forged.Register}).Nonce
		forged, _ = prover{s.net, "idz"}.Prove(forged)
		resp := send(forged)
		if resp.Refused == nil || resp.Refused.Reason != state.ReasonInvitationUnknown || !strings.Contains(resp.Refused.Message, "was altered") {
			t.Errorf("a stolen claim: %+v", resp)
		}
		if err := s.guest("d", invitedID).Join(s.within(time.Minute), []string{address(bad)}, seen); err != nil {
			t.Errorf("the honest one: %v", err)
		}
	})
}
