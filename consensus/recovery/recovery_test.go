package recovery_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/store"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

const swarmID = "0123456789abcdef0123456789abcdef"

var quiet = slog.New(slog.DiscardHandler)

// survivor is the state directory of SN sn-0, one of three, of which the others are gone.
type survivor struct {
	t         *testing.T
	dir       string
	peerID    string
	authority *rpctest.Authority
	operator  *rpctest.Source
}

func newSurvivor(t *testing.T, authority *rpctest.Authority, voters ...string) *survivor {
	t.Helper()
	s := &survivor{t: t, dir: filepath.Join(t.TempDir(), "state"), authority: authority}
	var err error
	if s.operator, err = authority.Issue("/swarm/swci/dr-who", time.Hour); err != nil {
		t.Fatal(err)
	}
	lock, err := identity.OpenStateDir(s.dir, "sn-0", identity.RoleSN)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	key, err := identity.LoadOrCreateNodeKey(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.PeerID(key)
	if err != nil {
		t.Fatal(err)
	}
	s.peerID = id.String()
	if err := epoch.Write(s.dir, epoch.First(swarmID)); err != nil {
		t.Fatal(err)
	}
	s.write(voters)
	return s
}

// write makes raft's log of a group of sn-0 and these voters.
func (s *survivor) write(voters []string) {
	s.t.Helper()
	var conf raft.Configuration
	commands := []state.Command{state.InitSwarm{SwarmID: swarmID, AtMS: 1}}
	var ders [][]byte
	for _, c := range s.bundle() {
		ders = append(ders, c.Raw)
	}
	commands = append(commands, state.BundleOf(s.authority.Domain().Name(), ders, time.Now().UnixMilli()))
	for _, name := range append([]string{"sn-0"}, voters...) {
		peer := "id" + strings.ReplaceAll(name, "-", "")
		if name == "sn-0" {
			peer = s.peerID
		}
		commands = append(commands, state.RegisterNode{
			Node:      state.Node{Name: name, Role: naming.RoleSN, PeerID: peer, Host: "127.0.0.1", P2PPort: 30303, APIPort: 30304, FSPort: 30305},
			TokenHash: strings.Repeat("ab", 32), AtMS: 2,
		})
		conf.Servers = append(conf.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(name), Address: raft.ServerAddress(consensus.FormatAddress(peer, "127.0.0.1:30303"))})
	}
	logs := []*raft.Log{{Index: 1, Term: 3, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(conf)}}
	for _, c := range commands {
		b, err := state.EncodeCommand(c)
		if err != nil {
			s.t.Fatal(err)
		}
		logs = append(logs, &raft.Log{Index: uint64(len(logs) + 1), Term: 3, Type: raft.LogCommand, Data: b})
	}
	stores, closers, err := store.Open(filepath.Join(s.dir, "raft"), quiet)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(stores.Log.StoreLogs(logs), stores.Stable.SetUint64([]byte(store.KeyTerm), 3), closers.Close()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *survivor) bundle() []*x509.Certificate {
	s.t.Helper()
	b, err := s.operator.GetX509BundleForTrustDomain(s.authority.Domain())
	if err != nil {
		s.t.Fatal(err)
	}
	return b.X509Authorities()
}

func (s *survivor) config() recovery.Config {
	return recovery.Config{Dir: s.dir, Source: s.operator, Log: quiet}
}

func (s *survivor) found(change ...func(*recovery.Config)) (recovery.Result, error) {
	cfg := s.config()
	for _, c := range change {
		c(&cfg)
	}
	return recovery.Found(s.t.Context(), cfg)
}

// nobody is a network without other servers.
type nobody struct{}

func (nobody) Dial(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
func (nobody) Handle(string, func(net.Conn, consensus.Peer))          {}

type noProver struct{}

func (noProver) Prove(r consensus.JoinRequest) (consensus.JoinRequest, error) { return r, nil }
func (noProver) Check(string, consensus.JoinRequest) (consensus.Peer, error) {
	return consensus.Peer{}, net.ErrClosed
}

// run starts a server on the directory and calls fn when it leads.
func (s *survivor) run(fn func(g *consensus.Group)) {
	s.t.Helper()
	g, err := consensus.Open(consensus.Config{
		Name: "sn-0", Address: consensus.FormatAddress(s.peerID, "127.0.0.1:30303"), Dir: s.dir, Network: nobody{}, Log: quiet, Prover: noProver{},
		Timing: consensus.Timing{Heartbeat: 50 * time.Millisecond, Election: 50 * time.Millisecond, Lease: 50 * time.Millisecond},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	if err := g.Barrier(ctx); err != nil {
		s.t.Error(err)
	}
	fn(g)
	cancel()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

func (s *survivor) ledger() []byte {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "ledger.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return b
}

func newAuthority(t *testing.T) *rpctest.Authority {
	t.Helper()
	a, err := rpctest.NewAuthority("a.example")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestFound(t *testing.T) {
	s := newSurvivor(t, newAuthority(t), "sn-1", "sn-2")
	res, err := s.found()
	if err != nil {
		t.Fatal(err)
	}
	if res.Epoch != 2 || res.Node != "sn-0" || res.By != "spiffe://a.example/swarm/swci/dr-who" || strings.Join(res.Forgot, " ") != "sn-1 sn-2" || res.Index != 6 {
		t.Errorf("got %+v", res)
	}
	pin, err := epoch.Read(s.dir)
	if err != nil || pin.Epoch != 2 || !strings.HasPrefix(res.Digest, pin.Digest) {
		t.Errorf("pinned %v, %v", pin, err)
	}
	s.run(func(g *consensus.Group) {
		view := g.View()
		if got := g.Servers(); len(got) != 1 || !got[0].Voter || view.Epoch() != 2 || len(view.NodesByRole(naming.RoleSN)) != 1 {
			t.Errorf("servers %+v, epoch %d, SNs %d", got, view.Epoch(), len(view.NodesByRole(naming.RoleSN)))
		}
		if err := g.LedgerComplete(); err != nil {
			t.Error(err)
		}
		if _, err := g.Propose(t.Context(), state.RegisterNode{
			Node: state.Node{Name: "sl-0", Role: naming.RoleSL, PeerID: "idsl0"}, TokenHash: strings.Repeat("ab", 32), AtMS: 3,
		}); err != nil {
			t.Error(err)
		}
	})
	again, err := s.found()
	if err != nil || !again.Before || again.Digest != res.Digest {
		t.Errorf("again: %+v, %v", again, err)
	}
	report, err := audit.Verify(bytes.NewReader(s.ledger()), audit.Options{Authorities: s.bundle()})
	if err != nil || !report.Good() || len(report.Recoveries) != 1 || report.Recoveries[0].LastIndex != 6 {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

// killed is a store of snapshots at whose first write the process dies.
type killed struct{ raft.SnapshotStore }

var errKilled = errors.New("killed")

func (killed) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return nil, errKilled
}

// TestKilledAtAnyPoint: whoever runs it again ends with the same epoch.
func TestKilledAtAnyPoint(t *testing.T) {
	authority := newAuthority(t)
	for _, at := range []string{"written down", "ledger written", "founded", "pinned"} {
		t.Run(at, func(t *testing.T) {
			s := newSurvivor(t, authority, "sn-1", "sn-2")
			if err := s.killed(at); !errors.Is(err, errKilled) {
				t.Fatalf("not killed: %v", err)
			}
			if err := recovery.Check(s.dir); err == nil {
				t.Error("a node would start from what is half-done")
			}
			res, err := s.found()
			if err != nil || res.Epoch != 2 {
				t.Fatalf("again: %+v, %v", res, err)
			}
			if err := recovery.Check(s.dir); err != nil {
				t.Error(err)
			}
			s.run(func(g *consensus.Group) {
				if view := g.View(); view.Epoch() != 2 || len(view.Recoveries) != 1 || len(g.Servers()) != 1 {
					t.Errorf("epoch %d, %d servers", view.Epoch(), len(g.Servers()))
				}
			})
			report, err := audit.Verify(bytes.NewReader(s.ledger()), audit.Options{Authorities: s.bundle()})
			if err != nil || !report.Good() || len(report.Recoveries) != 1 {
				t.Errorf("audit: %+v, %v", report, err)
			}
		})
	}
}

// TestRefusedAfterItWasInterrupted: the others are there after all, and the directory is as before.
func TestRefusedAfterItWasInterrupted(t *testing.T) {
	for _, at := range []string{"written down", "ledger written"} {
		s := newSurvivor(t, newAuthority(t), "sn-1", "sn-2")
		if err := s.killed(at); !errors.Is(err, errKilled) {
			t.Fatalf("not killed: %v", err)
		}
		answers := errors.New("2 of 3 SNs answer")
		if _, err := s.found(func(c *recovery.Config) {
			c.Lost = func(context.Context, epoch.Pin, []recovery.Voter) error { return answers }
		}); !errors.Is(err, answers) {
			t.Fatalf("got %v", err)
		}
		if len(s.ledger()) > 0 || recovery.Check(s.dir) != nil {
			t.Errorf("%s: something is left of it: %d bytes of ledger, %v", at, len(s.ledger()), recovery.Check(s.dir))
		}
	}
}

// TestAbandoned: what was begun is taken back, and what is done is not.
func TestAbandoned(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for at, done := range map[string]bool{"written down": false, "ledger written": false, "founded": true, "pinned": true} {
		s := newSurvivor(t, newAuthority(t), "sn-1", "sn-2")
		if begun, err := recovery.Abandon(s.dir, quiet); begun || err != nil {
			t.Fatalf("before anything was begun: %t, %v", begun, err)
		}
		if err := s.killed(at); !errors.Is(err, errKilled) {
			t.Fatalf("not killed: %v", err)
		}
		begun, err := recovery.Abandon(s.dir, quiet)
		if !begun || (err != nil) != done {
			t.Errorf("%s: begun %t, %v", at, begun, err)
		}
		if left := recovery.Check(s.dir); (left != nil) != done || !done && len(s.ledger()) > 0 {
			t.Errorf("%s: something is left of it: %d bytes of ledger, %v", at, len(s.ledger()), left)
		}
		if _, err := s.found(); err != nil {
			t.Errorf("%s: it can't be recovered any more: %v", at, err)
		}
	}
}

// killed begins a recovery, which dies at some point.
func (s *survivor) killed(at string) error {
	if at == "ledger written" {
		return recovery.FoundWith(s.t.Context(), s.config(), func(st *store.Stores) { st.Snapshots = killed{st.Snapshots} })
	}
	return recovery.FoundUntil(s.t.Context(), s.config(), at, errKilled)
}

func TestRefusals(t *testing.T) {
	authority := newAuthority(t)
	others := errors.New("2 of 3 SNs answer")
	tests := []struct {
		name   string
		voters []string
		change func(*testing.T, *survivor, *recovery.Config)
		want   string
	}{
		{"the others answer", []string{"sn-1", "sn-2"}, func(_ *testing.T, _ *survivor, c *recovery.Config) {
			c.Lost = func(_ context.Context, _ epoch.Pin, v []recovery.Voter) error {
				if len(v) != 2 || v[0].Name != "sn-1" || v[0].Address != "127.0.0.1:30303" || v[0].PeerID != "idsn1" {
					t.Errorf("asked of %+v", v)
				}
				return others
			}
		}, "2 of 3 SNs answer"},
		{"one voter", nil, func(*testing.T, *survivor, *recovery.Config) {}, "the only voter"},
		{"no operator", []string{"sn-1"}, func(t *testing.T, s *survivor, c *recovery.Config) {
			t.Helper()
			sn, err := authority.Issue("/swarm/sn/sn-0", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			c.Source = sn
		}, "of the role swci"},
		{"in use", []string{"sn-1"}, func(t *testing.T, s *survivor, _ *recovery.Config) {
			t.Helper()
			lock, err := identity.OpenStateDir(s.dir, "sn-0", identity.RoleSN)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = lock.Close() })
		}, "in use by another process"},
		{"no raft state", []string{"sn-1"}, func(t *testing.T, s *survivor, _ *recovery.Config) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(s.dir, "raft")); err != nil {
				t.Fatal(err)
			}
		}, "neither a raft log nor a snapshot"},
		{"an empty log", []string{"sn-1"}, func(t *testing.T, s *survivor, _ *recovery.Config) {
			t.Helper()
			if err := errors.Join(os.RemoveAll(filepath.Join(s.dir, "raft")), os.Mkdir(filepath.Join(s.dir, "raft"), 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "neither a raft log nor a snapshot"},
		{"an SL's directory", []string{"sn-1"}, func(t *testing.T, s *survivor, c *recovery.Config) {
			t.Helper()
			c.Dir = filepath.Join(t.TempDir(), "sl")
			lock, err := identity.OpenStateDir(c.Dir, "sl-0", identity.RoleSL)
			if err := errors.Join(err, lock.Close()); err != nil {
				t.Fatal(err)
			}
		}, "not the state directory of an SN"},
		{"a directory that is not there", []string{"sn-1"}, func(_ *testing.T, _ *survivor, c *recovery.Config) { c.Dir += "x" }, "no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSurvivor(t, authority, tt.voters...)
			_, err := s.found(func(c *recovery.Config) { tt.change(t, s, c) })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if recovery.Check(s.dir) != nil || len(s.ledger()) > 0 {
				t.Error("a refusal has left something")
			}
		})
	}
}
