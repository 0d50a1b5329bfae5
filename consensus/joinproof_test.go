package consensus_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
)

// TestJoinsThatAnSNMakesUpAreRefused: a rogue follower passes on joins of peers that never asked, or not so, or not now.
func TestJoinsThatAnSNMakesUpAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...).name
		bad := others(three, leader)[0]
		s.start("z") // it answers the leader, and wants to join nothing
		z := prover{s.net, "idz"}
		links := s.linksOf(s.net.nodes["id"+bad])
		send := func(r consensus.JoinRequest) consensus.JoinResponse {
			t.Helper()
			resp, err := consensus.AskPassedJoin(s.within(30*time.Second), links, address(leader), consensus.Peer{PeerID: "idz", Role: "sn", SPIFFEID: "spiffe://anybody/swarm/sn/z"}, r)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		fresh := func() consensus.JoinRequest {
			r := joinRequest("z")
			r.SwarmID, r.Nonce = "swarm1", send(consensus.JoinRequest{Name: "z", Address: address("z")}).Nonce
			return r
		}
		signed := func(r consensus.JoinRequest) consensus.JoinRequest {
			r, _ = z.Prove(r)
			return r
		}
		own := fresh()
		own, _ = prover{s.net, "id" + bad}.Prove(own)
		changed := signed(fresh())
		changed.Address = consensus.FormatAddress("idz", "elsewhere:1")
		another := signed(fresh())
		another.Nonce = fresh().Nonce
		invented := joinRequest("z")
		invented.SwarmID, invented.Nonce = "swarm1", make([]byte, 32)
		for name, tc := range map[string]struct {
			request consensus.JoinRequest
			reason  string
		}{
			"no signature":            {fresh(), "SIGNATURE_REFUSED"},
			"its own signature":       {own, "SIGNATURE_REFUSED"},
			"another address":         {changed, "SIGNATURE_REFUSED"},
			"signed over another one": {another, "SIGNATURE_REFUSED"},
			"a nonce of its own":      {signed(invented), "NONCE_REFUSED"},
		} {
			if resp := send(tc.request); resp.Refused == nil || resp.Refused.Reason != tc.reason {
				t.Errorf("%s: %+v, want %s", name, resp.Refused, tc.reason)
			}
		}
		if s.member(leader, "z") || s.servers[leader].View().Nodes["z"] != nil {
			t.Error("z is a server")
		}
		genuine := signed(fresh())
		if resp := send(genuine); resp.Refused != nil {
			t.Fatalf("a genuine join that is passed on: %v", resp.Refused)
		}
		if resp := send(genuine); resp.Refused == nil || resp.Refused.Reason != "NONCE_REFUSED" {
			t.Errorf("the same again: %+v", resp.Refused)
		}
	})
}

// TestAFloodOfJoinsKeepsNobodyOut: one SN asks an honest follower for nonces without end, while another one signs over its own.
func TestAFloodOfJoinsKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		follower := others(three, s.leader(three...).name)[0]
		s.start("z")
		dial := func(from string) func(consensus.JoinRequest) consensus.JoinResponse {
			conn, err := s.net.nodes[from].Dial(t.Context(), address(follower), consensus.ProtocolJoin)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return func(r consensus.JoinRequest) (resp consensus.JoinResponse) {
				t.Helper()
				var size [4]byte
				err := consensus.EncodeJoin(conn, r)
				if err == nil {
					_, err = io.ReadFull(conn, size[:])
				}
				if err == nil {
					err = json.NewDecoder(io.LimitReader(conn, int64(binary.BigEndian.Uint32(size[:])))).Decode(&resp)
				}
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
		}
		join := dial("idz")
		mine := joinRequest("z")
		mine.SwarmID, mine.Nonce = "swarm1", join(consensus.JoinRequest{Name: "z", Address: address("z")}).Nonce
		for i := range 300 { // each with two nonces
			s.net.node(consensus.Peer{PeerID: fmt.Sprint("idy", i), Role: "sn", SPIFFEID: "spiffe://d/swarm/sn/y"})
			ask := dial(fmt.Sprint("idy", i))
			for range 2 {
				if resp := ask(consensus.JoinRequest{Name: "y", Address: address("y")}); resp.Nonce == nil {
					t.Fatal(resp.Refused)
				}
			}
		}
		mine, _ = prover{s.net, "idz"}.Prove(mine)
		if resp := join(mine); resp.Refused != nil {
			t.Errorf("the honest one: %v", resp.Refused)
		}
	})
}

// TestOneSPIFFEIDHasOneVote: who was given one identity must not become the majority. An entry that all SNs share is exempt.
func TestOneSPIFFEIDHasOneVote(t *testing.T) {
	for id, votes := range map[string]bool{"spiffe://d/swarm/sn/x": false, "spiffe://d/swarm/sn": true} {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				s.form("a", "b")
				for _, name := range []string{"c", "d"} {
					cfg := s.config(name)
					cfg.Network = s.net.node(consensus.Peer{PeerID: "id" + name, Role: "sn", SPIFFEID: id})
					if err := s.startWith(cfg).Join(s.within(30*time.Second), []string{address("b")}, joinRequest(name)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * time.Minute) // autopilot may want to give it a vote
				got := map[string]bool{}
				for _, sv := range s.leader("a", "b", "c", "d").Servers() {
					got[sv.Name] = sv.Voter
				}
				if !got["c"] || got["d"] != votes {
					t.Errorf("c votes: %t, d votes: %t, want %t", got["c"], got["d"], votes)
				}
			})
		})
	}
}

// TestNamedServersAreForgotten: an SN that a new one asks first names others that are none. They are believed until it has joined.
func TestNamedServersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		liar := s.net.node(consensus.Peer{PeerID: "idliar", Role: "sn"})
		liar.Handle(consensus.ProtocolJoin, func(conn net.Conn, _ consensus.Peer) {
			defer func() { _ = conn.Close() }()
			if _, err := consensus.DecodeJoin(conn); err != nil {
				return
			}
			answer, err := json.Marshal(consensus.JoinResponse{Nonce: []byte{1}, SwarmID: "swarm1", Servers: []string{address("a"), address("x")}})
			if err != nil {
				t.Error(err)
			}
			_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
			_, _ = consensus.DecodeJoin(conn)
		})
		d := s.start("d")
		if err := d.Join(s.within(30*time.Second), []string{address("liar"), address("a")}, joinRequest("d")); err != nil {
			t.Fatal(err)
		}
		trans, _ := s.rogue(consensus.Peer{PeerID: "idx", Role: "sn"}, "x")
		header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("x"), Addr: []byte(address("x"))}
		for name, send := range attacks {
			if err := send(trans, header, address("d"), 100); err == nil {
				t.Errorf("%s of a server that an SN made up was answered", name)
			}
		}
		s.goesOn("a", "b", "c", "d")
	})
}
