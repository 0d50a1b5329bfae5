package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
)

func others(all []string, but string) []string {
	var out []string
	for _, n := range all {
		if n != but {
			out = append(out, n)
		}
	}
	return out
}

var three = []string{"a", "b", "c"}

func TestFormAndForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...)
		for _, on := range three {
			s.propose(on, "sl-"+on)
		}
		s.converged(three...)
		voters := 0
		for _, sv := range leader.Servers() {
			if sv.Voter {
				voters++
			}
		}
		if voters != 3 {
			t.Errorf("got %d voters, want 3", voters)
		}
		follower := s.servers[others(three, leader.name)[0]]
		if err := follower.Barrier(s.within(time.Second)); err != nil {
			t.Errorf("barrier on a follower: %v", err)
		}
	})
}

func TestRejectionKeepsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		follower := s.servers[others(three, s.leader(three...).name)[0]]
		s.propose("a", "sl-0")
		another := registerSL("sl-0")
		another.Node.PeerID = "another"
		_, err := follower.Propose(s.within(10*time.Second), another)
		var rejected *state.Error
		if !errors.As(err, &rejected) || rejected.Reason != state.ReasonNameTaken || rejected.Remedy == "" {
			t.Errorf("got %#v, want a whole rejection with %s", err, state.ReasonNameTaken)
		}
	})
}

func TestWhatDoesNotDecodeIsNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		for _, on := range three {
			bad := registerSL("sl-bad")
			bad.Node.Host = "caf\xe9" // Latin-1
			if _, err := s.servers[on].Propose(s.within(10*time.Second), bad); err == nil {
				t.Errorf("%s: a command that is no UTF-8 was taken", on)
			}
		}
		s.propose("a", "sl-good")
		s.converged(three...)
	})
}

func TestPartitionAndHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		old := s.leader(three...)
		rest := others(three, old.name)
		s.net.Cut("id" + old.name)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := old.Propose(ctx, registerSL("lost")); !errors.Is(err, consensus.ErrNoLeader) {
			t.Errorf("propose on a leader cut off: got %v, want ErrNoLeader", err)
		}
		if old.IsLeader() {
			t.Error("a leader cut off still leads")
		}
		s.leader(rest...)
		s.propose(rest[0], "kept")
		s.net.Heal("id" + old.name)
		s.leader(three...)
		s.converged(three...)
		if old.View().Nodes["kept"] == nil || old.View().Nodes["lost"] != nil {
			t.Error("the healed server has another history")
		}
	})
}

func TestRestartAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		s.propose("b", "sl-0")
		for _, name := range three {
			s.stop(name)
		}
		for _, name := range three {
			if sv := s.start(name); !sv.HasState() {
				t.Errorf("%s has lost its state", name)
			}
		}
		s.leader(three...)
		s.propose("c", "sl-1")
		s.converged(three...)
		if s.servers["a"].View().Nodes["sl-0"] == nil {
			t.Error("an acknowledged command is lost")
		}
	})
}

func TestSnapshotServesLateJoiner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.timing = consensus.Timing{SnapshotAfter: 8, Trailing: 2, SnapshotEvery: time.Second}
		s.form("a", "b")
		for i := range 30 {
			s.propose("b", fmt.Sprintf("sl-%d", i))
		}
		s.until("the log's head to be cut", func() bool {
			first, err := s.stores["a"].Log.FirstIndex()
			return err == nil && first > 10
		})
		s.join("c", "b")
		s.converged(three...)
		snaps, err := s.stores["c"].Snapshots.List()
		if err != nil || len(snaps) == 0 {
			t.Errorf("the joiner got no snapshot (%v)", err)
		}
		s.stop("a")
		s.start("a")
		s.converged("b", "a")
	})
}

func TestJoinRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		peer   consensus.Peer
		change func(*consensus.JoinRequest)
		reason string
	}{
		"wrong role":      {peer: consensus.Peer{PeerID: "idx", Role: "sl"}, reason: "ROLE_REFUSED"},
		"SVID of another": {peer: consensus.Peer{PeerID: "idx", Role: "sn", SPIFFEID: "spiffe://d/swarm/sn/y", NodeName: "y"}, reason: "NAME_REFUSED"},
		"name taken":      {change: func(r *consensus.JoinRequest) { r.Name, r.Register.Node.Name = "a", "a" }, reason: "NAME_TAKEN"},
		"other swarm":     {change: func(r *consensus.JoinRequest) { r.SwarmID = "swarm2" }, reason: "OTHER_SWARM"},
		"not a node":      {change: func(r *consensus.JoinRequest) { r.Register.TokenHash = "" }, reason: "BAD_COMMAND"},
		"another's name":  {change: func(r *consensus.JoinRequest) { r.Register.Node.PeerID = "idb" }, reason: "SIGNATURE_REFUSED"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				s.form("a", "b")
				req := joinRequest("x")
				if tc.change != nil {
					tc.change(&req)
				}
				cfg := s.config("x")
				cfg.Name = req.Name
				if tc.peer.PeerID != "" {
					cfg.Network = s.net.node(tc.peer)
				}
				g, err := consensus.Open(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := g.Close(); err != nil {
						t.Error(err)
					}
				}()
				err = g.Join(s.within(30*time.Second), []string{address("b")}, req)
				var refusal *consensus.JoinRefusal
				if !errors.Is(err, consensus.ErrRefused) || !errors.As(err, &refusal) || refusal.Reason != tc.reason {
					t.Errorf("got %v, want a refusal with %s", err, tc.reason)
				}
				if n := len(s.servers["a"].Servers()); n != 2 {
					t.Errorf("got %d servers, want 2", n)
				}
			})
		})
	}
}

func TestJoinCommitsTheProvenSPIFFEID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b")
		cfg := s.config("c")
		cfg.Network = s.net.node(consensus.Peer{PeerID: "idc", Role: "sn", SPIFFEID: "spiffe://d/swarm/sn/c", NodeName: "c"})
		req := joinRequest("c")
		req.Register.Node.SPIFFEID = "spiffe://d/swarm/sn/a"
		if err := s.startWith(cfg).Join(s.within(30*time.Second), []string{address("b")}, req); err != nil {
			t.Fatal(err)
		}
		if got := s.servers["c"].View().Nodes["c"].SPIFFEID; got != "spiffe://d/swarm/sn/c" {
			t.Errorf("committed SPIFFE ID %s, want the one that the stream proved", got)
		}
	})
}

func TestSixthServerDoesNotVoteUntilOneIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		names := []string{"a", "b", "c", "d", "e", "f"}
		s.form(names...)
		leader := s.leader(names...)
		votes := func() map[string]bool {
			out := map[string]bool{}
			for _, sv := range leader.Servers() {
				out[sv.Name] = sv.Voter
			}
			return out
		}
		want := map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": false}
		if d := cmp.Diff(want, votes()); d != "" {
			t.Fatal(d)
		}
		dead := others(names[:5], leader.name)[0]
		s.net.Cut("id" + dead)
		s.until("the sixth to vote in the dead one's place", func() bool { return votes()["f"] })
		if _, there := votes()[dead]; there {
			t.Errorf("%s is dead and still a server", dead)
		}
		s.net.Heal("id" + dead)
		s.until("the removed server to come back", func() bool { _, there := votes()[dead]; return there })
	})
}

func TestDeadServerIsKeptWhenThreeVoteOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b", "c", "d")
		leader := s.leader("a", "b", "c", "d")
		rest := others([]string{"a", "b", "c", "d"}, leader.name)
		s.net.Cut("id" + rest[0])
		s.until("the dead one's removal", func() bool { return len(leader.Servers()) == 3 })
		s.net.Cut("id" + rest[1])
		time.Sleep(5 * time.Minute)
		if n := len(leader.Servers()); n != 3 {
			t.Errorf("got %d servers, want 3", n)
		}
		s.propose(leader.name, "sl-0")
	})
}

func TestSendToLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...)
		for _, name := range three {
			s.servers[name].HandleForward("echo", func(_ context.Context, from consensus.Peer, p []byte) ([]byte, error) {
				if len(p) == 0 {
					return nil, &consensus.RemoteError{Reason: "EMPTY", Message: "nothing to say"}
				}
				return []byte(name + "<" + from.PeerID + ":" + string(p)), nil
			})
		}
		for _, name := range three {
			got, err := s.servers[name].SendToLeader(s.within(time.Second), "echo", []byte("hi"))
			if want := leader.name + "<id" + name + ":hi"; err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			_, err = s.servers[name].SendToLeader(s.within(time.Second), "echo", nil)
			var remote *consensus.RemoteError
			if !errors.As(err, &remote) || remote.Reason != "EMPTY" {
				t.Errorf("got %v, want reason EMPTY", err)
			}
		}
		follower := s.servers[others(three, leader.name)[0]]
		if _, err := follower.SendToLeader(s.within(time.Second), "echo", make([]byte, consensus.MaxPayload+1)); err == nil {
			t.Error("a payload over the limit was sent")
		}
		got, err := follower.SendToLeader(s.within(time.Second), "echo", make([]byte, consensus.MaxPayload-100))
		if err != nil || len(got) < consensus.MaxPayload-100 {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
}

func TestLeadershipKeepsTheLastValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		old := s.leader(three...)
		follow := old.Leadership()
		s.net.Cut("id" + old.name)
		time.Sleep(time.Minute)
		if leads := <-follow; leads {
			t.Error("the newest value is not the last")
		}
		if leads := <-s.leader(others(three, old.name)...).Leadership(); !leads {
			t.Error("a leader is told that it does not lead")
		}
	})
}

func TestUndecodableEntryHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a")
		s.stop("a")
		log := s.stores["a"].Log
		last, err := log.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		if err := log.StoreLog(&raft.Log{Index: last + 1, Term: 2, Type: raft.LogCommand, Data: []byte(`{"v":99}`)}); err != nil {
			t.Fatal(err)
		}
		g, err := consensus.Open(s.config("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Run(t.Context()); !errors.Is(err, state.ErrVersion) {
			t.Errorf("got %v, want ErrVersion", err)
		}
	})
}

// fullDisk is a log store whose writes fail when it is told so.
type fullDisk struct {
	raft.LogStore
	full bool
}

func (f *fullDisk) StoreLogs(logs []*raft.Log) error {
	if f.full {
		return errBlocked
	}
	return f.LogStore.StoreLogs(logs)
}

func TestFullDiskStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		cfg := s.config("a")
		disk := &fullDisk{LogStore: cfg.Stores.Log}
		cfg.Stores.Log = disk
		g, err := consensus.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- g.Run(t.Context()) }()
		if err := g.Bootstrap(s.within(10*time.Second), state.InitSwarm{SwarmID: "swarm1"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		disk.full = true
		if _, err := g.Propose(s.within(10*time.Second), registerSL("sl")); err == nil {
			t.Error("a command that was not stored was acknowledged")
		}
		if err := <-done; !errors.Is(err, errBlocked) {
			t.Errorf("got %v, want the store's error", err)
		}
	})
}
