package consensus_test

import (
	"context"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
)

// rogueLayer gives raft's own transport the streams of a node on a memNet.
type rogueLayer struct {
	node     *memNode
	address  string
	accepted chan net.Conn
	done     chan struct{}
}

func (l *rogueLayer) Dial(to raft.ServerAddress, _ time.Duration) (net.Conn, error) {
	return l.node.Dial(context.Background(), string(to), consensus.ProtocolRaft)
}

func (l *rogueLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *rogueLayer) Addr() net.Addr { return rogueAddr(l.address) }
func (l *rogueLayer) Close() error   { close(l.done); return nil }

type rogueAddr string

func (rogueAddr) Network() string  { return "swarm" }
func (a rogueAddr) String() string { return string(a) }

// rogue is raft's transport in the hands of whoever has the name's node key and SVID.
func (s *swarm) rogue(peer consensus.Peer, name string) (*raft.NetworkTransport, *rogueLayer) {
	s.t.Helper()
	node := s.net.nodes[peer.PeerID]
	if node == nil {
		node = s.net.node(peer)
	}
	layer := &rogueLayer{node: node, address: address(name), accepted: make(chan net.Conn), done: make(chan struct{})}
	trans := raft.NewNetworkTransport(layer, 1, 5*time.Second, nil)
	s.t.Cleanup(func() {
		trans.CloseStreams()
		_ = trans.Close()
	})
	return trans, layer
}

// terms checks that no server has stored a term that no election leads to.
func (s *swarm) terms(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if term, err := s.stores[name].Stable.GetUint64([]byte("CurrentTerm")); err != nil || term > 1000 {
			s.t.Errorf("%s is in term %d (%v)", name, term, err)
		}
	}
}

// goesOn checks that the swarm elects and commits, now and after a restart of all.
func (s *swarm) goesOn(names ...string) {
	s.t.Helper()
	s.leader(names...)
	s.propose(names[0], "sl-before")
	s.terms(names...)
	s.restart(names...)
	s.leader(names...)
	s.propose(names[1], "sl-after")
	s.converged(names...)
}

type attack func(t *raft.NetworkTransport, from raft.RPCHeader, to string, term uint64) error

// attacks are the messages of raft that change a server's term, or who leads.
var attacks = map[string]attack{
	"vote and leadership transfer": func(t *raft.NetworkTransport, from raft.RPCHeader, to string, term uint64) error {
		req := &raft.RequestVoteRequest{RPCHeader: from, Term: term, LastLogIndex: term, LastLogTerm: term, LeadershipTransfer: true}
		return t.RequestVote("x", raft.ServerAddress(to), req, &raft.RequestVoteResponse{})
	},
	"pre-vote": func(t *raft.NetworkTransport, from raft.RPCHeader, to string, term uint64) error {
		req := &raft.RequestPreVoteRequest{RPCHeader: from, Term: term, LastLogIndex: term, LastLogTerm: term}
		return t.RequestPreVote("x", raft.ServerAddress(to), req, &raft.RequestPreVoteResponse{})
	},
	"append": func(t *raft.NetworkTransport, from raft.RPCHeader, to string, term uint64) error {
		req := &raft.AppendEntriesRequest{RPCHeader: from, Term: term, PrevLogEntry: 1, PrevLogTerm: 1}
		return t.AppendEntries("x", raft.ServerAddress(to), req, &raft.AppendEntriesResponse{})
	},
	"heartbeat": func(t *raft.NetworkTransport, from raft.RPCHeader, to string, term uint64) error {
		return t.AppendEntries("x", raft.ServerAddress(to), &raft.AppendEntriesRequest{RPCHeader: from, Term: term}, &raft.AppendEntriesResponse{})
	},
	"snapshot": func(t *raft.NetworkTransport, from raft.RPCHeader, to string, term uint64) error {
		req := &raft.InstallSnapshotRequest{RPCHeader: from, SnapshotVersion: 1, Term: term, LastLogIndex: term, LastLogTerm: term, Size: 3, ConfigurationIndex: 1}
		req.Configuration = raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(from.ID), Address: raft.ServerAddress(from.Addr)}}})
		return t.InstallSnapshot("x", raft.ServerAddress(to), req, &raft.InstallSnapshotResponse{}, strings.NewReader("abc"))
	},
}

// TestTermThatNoElectionLeadsToIsRefused: a member's message with the largest term must not reach raft, which would store
// it and never elect again.
func TestTermThatNoElectionLeadsToIsRefused(t *testing.T) {
	for name, send := range attacks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				s.form(three...)
				bad := others(three, s.leader(three...).name)[0]
				trans, _ := s.rogue(consensus.Peer{PeerID: "id" + bad, Role: "sn"}, bad)
				header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(bad), Addr: []byte(address(bad))}
				for _, to := range others(three, bad) {
					if err := send(trans, header, address(to), math.MaxUint64); err == nil {
						t.Errorf("%s answered it", to)
					}
				}
				s.goesOn(three...)
			})
		})
	}
}

// TestEntriesOutOfOrderAreRefused: no log can be continued after an entry of the largest index, and no leader's is newer than
// one of the largest term.
func TestEntriesOutOfOrderAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		bad := others(three, s.leader(three...).name)[0]
		last, err := s.stores[bad].Log.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		trans, _ := s.rogue(consensus.Peer{PeerID: "id" + bad, Role: "sn"}, bad)
		header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(bad), Addr: []byte(address(bad))}
		for _, to := range others(three, bad) {
			for _, entry := range []*raft.Log{
				{Index: last + 1, Term: math.MaxUint64, Type: raft.LogNoop},
				{Index: last + 2, Term: 20, Type: raft.LogNoop},
				{Index: math.MaxUint64, Term: 20, Type: raft.LogNoop},
			} {
				request := &raft.AppendEntriesRequest{RPCHeader: header, Term: 20, PrevLogEntry: last, Entries: []*raft.Log{entry}}
				if err := trans.AppendEntries("x", raft.ServerAddress(address(to)), request, &raft.AppendEntriesResponse{}); err == nil {
					t.Errorf("%s answered entry %d of term %d", to, entry.Index, entry.Term)
				}
			}
			snapshot := &raft.InstallSnapshotRequest{RPCHeader: header, SnapshotVersion: 1, Term: 20, LastLogTerm: 21}
			snapshot.Configuration = raft.EncodeConfiguration(raft.Configuration{})
			if err := trans.InstallSnapshot("x", raft.ServerAddress(address(to)), snapshot, &raft.InstallSnapshotResponse{}, strings.NewReader("")); err == nil {
				t.Errorf("%s took a snapshot of a later term", to)
			}
		}
		s.goesOn(three...)
	})
}

// TestConfigurationThatDoesNotDecodeIsRefused: raft panics where it takes one, and at every start after.
func TestConfigurationThatDoesNotDecodeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		bad := others(three, s.leader(three...).name)[0]
		trans, _ := s.rogue(consensus.Peer{PeerID: "id" + bad, Role: "sn"}, bad)
		header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(bad), Addr: []byte(address(bad))}
		for _, to := range others(three, bad) {
			entry := &raft.Log{Index: 1000, Term: 20, Type: raft.LogConfiguration, Data: []byte{0xff}}
			request := &raft.AppendEntriesRequest{RPCHeader: header, Term: 20, Entries: []*raft.Log{entry}}
			if err := trans.AppendEntries("x", raft.ServerAddress(address(to)), request, &raft.AppendEntriesResponse{}); err == nil {
				t.Errorf("%s took it in its log", to)
			}
			snapshot := &raft.InstallSnapshotRequest{RPCHeader: header, SnapshotVersion: 1, Term: 20, Configuration: []byte{0xff}}
			if err := trans.InstallSnapshot("x", raft.ServerAddress(address(to)), snapshot, &raft.InstallSnapshotResponse{}, strings.NewReader("")); err == nil {
				t.Errorf("%s took it in a snapshot", to)
			}
		}
		s.goesOn(three...)
	})
}

// TestAnswersOfOtherTermsAreRefused: raft takes a term from an answer too.
func TestAnswersOfOtherTermsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		bad := others(three, s.leader(three...).name)[0]
		s.stop(bad)
		s.answers(bad, func() uint64 { return math.MaxUint64 })
		honest := others(three, bad)
		time.Sleep(10 * time.Second)
		s.goesOn(honest...)
		s.terms(honest...)
	})
}

// answers lets a name's node answer raft's requests with failures, in a term of its own choice.
func (s *swarm) answers(name string, term func() uint64) {
	trans, layer := s.rogue(consensus.Peer{PeerID: "id" + name, Role: "sn"}, name)
	layer.node.Handle(consensus.ProtocolRaft, func(conn net.Conn, _ consensus.Peer) {
		select {
		case layer.accepted <- conn:
		case <-layer.done:
			_ = conn.Close()
		}
	})
	lie := func(rpc raft.RPC) {
		switch rpc.Command.(type) {
		case *raft.AppendEntriesRequest:
			rpc.Respond(&raft.AppendEntriesResponse{Term: term()}, nil)
		case *raft.RequestVoteRequest:
			rpc.Respond(&raft.RequestVoteResponse{Term: term()}, nil)
		case *raft.RequestPreVoteRequest:
			rpc.Respond(&raft.RequestPreVoteResponse{Term: term()}, nil)
		default:
			rpc.Respond(nil, errBlocked)
		}
	}
	trans.SetHeartbeatHandler(lie)
	go func() {
		for {
			select {
			case rpc := <-trans.Consumer():
				lie(rpc)
			case <-layer.done:
				return
			}
		}
	}()
}

// TestStrangersAreNotFollowed: an SN that is not of the configuration sends raft's messages while no leader is known.
func TestStrangersAreNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		for _, name := range three[1:] {
			s.stop(name)
		}
		s.until("a to have no leader", func() bool { _, _, ok := s.servers["a"].Leader(); return !ok })
		before := s.servers["a"].Index()
		trans, _ := s.rogue(consensus.Peer{PeerID: "idx", Role: "sn"}, "x")
		for name, send := range attacks {
			for _, claimed := range []string{"x", "b"} {
				header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(claimed), Addr: []byte(address(claimed))}
				if err := send(trans, header, address("a"), 100); err == nil {
					t.Errorf("%s of a stranger that says it is %s was answered", name, claimed)
				}
			}
		}
		if _, leader, ok := s.servers["a"].Leader(); ok || s.servers["a"].Index() != before {
			t.Errorf("it follows %q", leader)
		}
		s.start("b")
		s.start("c")
		s.goesOn(three...)
	})
}

// TestOnlyTheLeaderHandsOver: a member that does not lead neither makes itself nor another the leader, nor speaks for one.
func TestOnlyTheLeaderHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...).name
		bad, good := others(three, leader)[0], others(three, leader)[1]
		follow := s.servers[leader].Leadership()
		<-follow
		trans, _ := s.rogue(consensus.Peer{PeerID: "id" + bad, Role: "sn"}, bad)
		own := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(bad), Addr: []byte(address(bad))}
		for _, to := range []string{leader, good} {
			vote := &raft.RequestVoteResponse{}
			req := &raft.RequestVoteRequest{RPCHeader: own, Term: 50, LastLogIndex: 1 << 20, LastLogTerm: 50, LeadershipTransfer: true}
			if err := trans.RequestVote("x", raft.ServerAddress(address(to)), req, vote); err == nil && vote.Granted {
				t.Errorf("%s voted for it", to)
			}
			now := &raft.TimeoutNowRequest{RPCHeader: own}
			if err := trans.TimeoutNow("x", raft.ServerAddress(address(to)), now, &raft.TimeoutNowResponse{}); err == nil {
				t.Errorf("%s was told to stand for election", to)
			}
			forged := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(leader), Addr: []byte(address(leader))}
			if err := attacks["heartbeat"](trans, forged, address(to), 50); err == nil {
				t.Errorf("%s took a heartbeat in the leader's name", to)
			}
		}
		time.Sleep(5 * time.Second)
		select {
		case <-follow:
			t.Error("leadership was lost")
		default:
		}
		// An honest hand-over still takes no election timeout.
		s.stop(leader)
		if _, err := s.servers[good].Propose(s.within(500*time.Millisecond), registerSL("sl-0")); err != nil {
			t.Errorf("after a hand-over: %v", err)
		}
	})
}
