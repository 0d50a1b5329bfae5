package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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

func TestWithLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...)
		for _, name := range three {
			s.servers[name].ServeAPI(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				w.WriteHeader(http.StatusTeapot)
				fmt.Fprintf(w, "%s<%s:%s", name, consensus.PeerOf(r.Context()).PeerID, b)
			}))
		}
		big := strings.Repeat("x", 4<<20)
		for _, name := range three {
			for _, body := range []string{"hi", "", big} {
				got, tries := "", 0
				err := s.servers[name].WithLeader(s.within(10*time.Second), func(ctx context.Context, way http.RoundTripper) error {
					if tries++; tries < 3 {
						return consensus.ErrNotLeader // another try is made
					}
					if way == nil {
						got = name + "<id" + name + ":" + body
						return nil
					}
					r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sn/echo", strings.NewReader(body))
					if err != nil {
						return err
					}
					res, err := way.RoundTrip(r)
					if err != nil {
						return err
					}
					defer res.Body.Close()
					if res.StatusCode != http.StatusTeapot {
						t.Errorf("status %s", res.Status)
					}
					b, err := io.ReadAll(res.Body)
					got = string(b)
					return err
				})
				if want := leader.name + "<id" + name + ":" + body; err != nil || got != want {
					t.Errorf("got %.80q, %v, want %.80q", got, err, want)
				}
			}
			final := errors.New("final")
			if err := s.servers[name].WithLeader(s.within(time.Second), func(context.Context, http.RoundTripper) error { return final }); !errors.Is(err, final) {
				t.Errorf("got %v, want what is final", err)
			}
		}
	})
}

// TestBeside: any server answers the others what is below Beside, and nothing else while it does not lead.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...)
		for _, name := range three {
			s.servers[name].ServeAPI(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "%s<%s", name, consensus.PeerOf(r.Context()).PeerID)
			}))
		}
		for _, from := range three {
			ways := s.servers[from].Others()
			if len(ways) != 2 || ways[from] != nil {
				t.Fatalf("others of %s: %v", from, ways)
			}
			for to, way := range ways {
				for path, want := range map[string]int{consensus.Beside + "x": http.StatusOK, "/x": http.StatusMisdirectedRequest} {
					if path == "/x" && to == leader.name {
						continue
					}
					r, err := http.NewRequestWithContext(s.within(10*time.Second), http.MethodPost, "http://sn"+path, strings.NewReader(""))
					if err != nil {
						t.Fatal(err)
					}
					res, err := way.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					b, err := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if err != nil || res.StatusCode != want || want == http.StatusOK && string(b) != to+"<id"+from {
						t.Errorf("%s asked %s for %s: %s, %q, %v", from, to, path, res.Status, b, err)
					}
				}
			}
		}
	})
}

// TestDeposedLeaderSendsOn: who asks a server that leads no more, or has nothing to answer with yet, finds the one that does.
func TestDeposedLeaderSendsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		leader := s.leader(three...)
		follower := others(three, leader.name)[0]
		links := s.linksOf(s.net.nodes["id"+follower])
		_, err := proposeBy(s.within(10*time.Second), links.To(address(others(three, leader.name)[1])), registerSL("sl-0"))
		if err == nil || leader.View().Nodes["sl-0"] != nil {
			t.Errorf("a follower was asked what a leader answers: %v", err)
		}
		leader.ServeAPI(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // as if it had lost its leadership meanwhile
			leader.ServeAPI(leader.standIn())
			w.WriteHeader(http.StatusMisdirectedRequest)
		}))
		s.propose(follower, "sl-1")
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
