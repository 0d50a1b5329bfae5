package raftnet

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/identity/naming"
)

// TestJudgeSender: a key that was named may only lead under a name that has another key, and only who follows nobody else.
func TestJudgeSender(t *testing.T) {
	address := func(id string) string { return FormatAddress(id, "host:30303") }
	header := func(name, id string) raft.RPCHeader {
		return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(name), Addr: []byte(address(id))}
	}
	servers := []raft.Server{{ID: "a", Address: raft.ServerAddress(address("ida"))}, {ID: "c", Address: raft.ServerAddress(address("idc"))}}
	tests := map[string]struct {
		name, id, leader string
		leads, votes     bool // whether the messages of a leader and of a candidate are taken
	}{
		"a member":                             {"c", "idc", "", true, true},
		"a member, of another leader":          {"c", "idc", "ida", true, true},
		"a member under a name of its own":     {"x", "idc", "", false, false},
		"a member under another's name":        {"a", "idc", "", false, false},
		"a stranger":                           {"x", "idx", "", false, false},
		"a stranger under a member's name":     {"c", "idx", "", false, false},
		"one that was named":                   {"x", "new", "", true, true}, // raft itself refuses it its vote
		"named, in a lost one's place":         {"c", "new", "", true, false},
		"named, in a lost one's place, leads":  {"c", "new", "new", true, false},
		"named, but there is a leader":         {"c", "new", "ida", false, false},
		"named, in the place of who leads now": {"c", "new", "idc", false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			leader := ""
			if tt.leader != "" {
				leader = address(tt.leader)
			}
			tr := &Transport{cfg: Config{
				Servers: func() []raft.Server { return servers },
				Leader:  func() string { return leader },
				Named:   func(id string) bool { return id == "new" },
			}}
			from := Peer{PeerID: tt.id, Role: naming.RoleSN}
			h := header(tt.name, tt.id)
			for request, want := range map[raft.WithRPCHeader]bool{
				&raft.AppendEntriesRequest{RPCHeader: h}:   tt.leads,
				&raft.InstallSnapshotRequest{RPCHeader: h}: tt.leads,
				&raft.RequestVoteRequest{RPCHeader: h}:     tt.votes,
				&raft.RequestPreVoteRequest{RPCHeader: h}:  tt.votes,
				&raft.TimeoutNowRequest{RPCHeader: h}:      tt.votes,
			} {
				if err := tr.judgeSender(from, request); (err == nil) != want {
					t.Errorf("%T: %v", request, err)
				}
			}
		})
	}
}
