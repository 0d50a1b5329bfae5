package restore_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/consensus/restore"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/store"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

const swarmID = "0123456789abcdef0123456789abcdef"

var quiet = slog.New(slog.DiscardHandler)

// lostSwarm is a backup of a swarm of three SNs, sn-0 to sn-2.
type lostSwarm struct {
	t           *testing.T
	authorities []*x509.Certificate
	cfg         restore.Config
}

func newLostSwarm(t *testing.T) *lostSwarm {
	t.Helper()
	a, err := rpctest.NewAuthority("hospital.example")
	if err != nil {
		t.Fatal(err)
	}
	operator, err := a.Issue("/swarm/swci/dr-who", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := operator.GetX509BundleForTrustDomain(spiffeid.RequireTrustDomainFromString("hospital.example"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lostSwarm{t: t, authorities: bundle.X509Authorities()}
	l.cfg = restore.Config{
		File: filepath.Join(t.TempDir(), "swarm.backup"), Dir: filepath.Join(t.TempDir(), "state"), Name: "sn-0", Host: "192.0.2.9", P2PPort: 30303,
		Source: operator, Log: quiet, Lost: func(context.Context, epoch.Pin, []recovery.Voter) error { return nil },
	}
	var ders [][]byte
	for _, c := range l.authorities {
		ders = append(ders, c.Raw)
	}
	commands := []state.Command{state.InitSwarm{SwarmID: swarmID, AtMS: 1}, state.BundleOf("hospital.example", ders, time.Now().UnixMilli())}
	for _, name := range []string{"sn-0", "sn-1", "sn-2"} {
		commands = append(commands, state.RegisterNode{
			Node: state.Node{Name: name, Role: naming.RoleSN, PeerID: "id" + strings.ReplaceAll(name, "-", ""), Host: "192.0.2.1", P2PPort: 30303}, TokenHash: strings.Repeat("0", 64), AtMS: 2,
		})
	}
	commands = append(commands, state.CreateContract{Contract: "study", AtMS: 3})
	s, lines := state.New(), []byte(nil)
	for _, c := range commands {
		next, result, err := s.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		s, lines = next, append(lines, bytes.Join(result.Records, nil)...)
	}
	var file bytes.Buffer
	err = backup.Write(&file, backup.Source{
		AtMS: 1, Index: 77, State: s, Origin: backup.Origin{SN: "sn-1"}, Ledger: func(offset uint64) ([]byte, error) { return lines[offset:], nil },
	})
	if err == nil {
		err = os.WriteFile(l.cfg.File, file.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lostSwarm) path(elem ...string) string {
	return filepath.Join(append([]string{l.cfg.Dir}, elem...)...)
}

// entries are the names in the state directory; nil if there is none.
func (l *lostSwarm) entries() (names []string) {
	l.t.Helper()
	found, err := os.ReadDir(l.cfg.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}

func (l *lostSwarm) restores() restore.Result {
	l.t.Helper()
	res, err := restore.Restore(l.t.Context(), l.cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	return res
}

// checks that the directory holds a group of sn-0 alone, in the second epoch, and a ledger that is good.
func (l *lostSwarm) checks() {
	l.t.Helper()
	if err := restore.Check(l.cfg.Dir); err != nil {
		l.t.Error(err)
	}
	if got := l.entries(); slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, "restore") }) || !slices.Contains(got, "swarm-epoch") {
		l.t.Errorf("the directory holds %v", got)
	}
	stores, closer, err := store.Open(l.path("raft"), quiet)
	if err != nil {
		l.t.Fatal(err)
	}
	defer closer.Close()
	if err := store.CheckMember(l.path("raft"), stores); err != nil {
		l.t.Error(err)
	}
	remains, err := consensus.ReadRemains(stores, quiet)
	if err != nil {
		l.t.Fatal(err)
	}
	if len(remains.Servers) != 1 || remains.Servers[0].ID != "sn-0" || !strings.HasSuffix(string(remains.Servers[0].Address), "@192.0.2.9:30303") {
		l.t.Errorf("servers: %v", remains.Servers)
	}
	if remains.LastIndex <= 1_000_000_000 {
		l.t.Errorf("the log goes on from index %d: nodes may know a later one", remains.LastIndex)
	}
	s := remains.State
	if s.Epoch() != 2 || len(s.NodesByRole(naming.RoleSN)) != 0 || s.Contracts["study"] == nil {
		l.t.Errorf("epoch %d, SNs %v, contracts %v", s.Epoch(), s.NodesByRole(naming.RoleSN), s.ContractNames())
	}
	f, err := os.Open(l.path("ledger.jsonl"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	report, err := audit.Verify(f, audit.Options{Authorities: l.authorities, Head: s.LedgerHead().Hash})
	if err != nil || !report.Good() || len(report.Recoveries) != 1 {
		l.t.Errorf("ledger: %+v, %v", report, err)
	}
}

func TestRestores(t *testing.T) {
	for name, prepare := range map[string]func(l *lostSwarm) error{
		"absent":      func(*lostSwarm) error { return nil },
		"empty":       func(l *lostSwarm) error { return os.Mkdir(l.cfg.Dir, 0o700) },
		"a volume":    func(l *lostSwarm) error { return os.MkdirAll(l.path("lost+found"), 0o700) },
		"interrupted": func(l *lostSwarm) error { return os.MkdirAll(l.path("restore.part", "raft"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLostSwarm(t)
			if err := prepare(l); err != nil {
				t.Fatal(err)
			}
			res := l.restores()
			if res.Before || res.Epoch != 2 || res.Node != "sn-0" || res.SwarmID != swarmID || res.Backup.Index != 77 || len(res.Forgot) != 2 {
				t.Errorf("result: %+v", res)
			}
			l.checks()
			if _, err := restore.Restore(t.Context(), l.cfg); !errors.Is(err, restore.ErrNotEmpty) {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// TestInterruptedAtTheEnd: the directory was made and half of it moved up. A node doesn't start, and the command ends what it has begun.
func TestInterruptedAtTheEnd(t *testing.T) {
	l := newLostSwarm(t)
	l.restores()
	if err := os.Mkdir(l.path("restore.whole"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range l.entries() {
		if i%2 == 0 && name != "restore.whole" {
			if err := os.Rename(l.path(name), l.path("restore.whole", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := restore.Check(l.cfg.Dir); err == nil || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("a node may start: %v", err)
	}
	if res := l.restores(); !res.Before || res.Epoch != 2 || res.Node != "sn-0" {
		t.Errorf("result: %+v", res)
	}
	l.checks()
}

// TestRefused: nothing is written then.
func TestRefused(t *testing.T) {
	damage := func(change func([]byte) []byte) func(l *lostSwarm) error {
		return func(l *lostSwarm) error {
			b, err := os.ReadFile(l.cfg.File)
			return errors.Join(err, os.WriteFile(l.cfg.File, change(b), 0o600))
		}
	}
	lives := errors.New("the swarm lives")
	for name, tt := range map[string]struct {
		prepare func(l *lostSwarm) error
		want    string
		is      error
	}{
		"cut off":       {damage(func(b []byte) []byte { return b[:len(b)/2] }), "swarm.backup: the backup is cut off", backup.ErrCutOff},
		"garbled":       {damage(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), "swarm.backup: the backup is damaged", backup.ErrDamaged},
		"no backup":     {damage(func([]byte) []byte { return []byte("my thesis") }), "not a backup of an SN", backup.ErrNotBackup},
		"another swarm": {func(l *lostSwarm) error { l.cfg.SwarmID = strings.Repeat("0", 32); return nil }, "is a backup of swarm " + swarmID, nil},
		"a swarm that lives": {func(l *lostSwarm) error {
			l.cfg.Lost = func(_ context.Context, of epoch.Pin, sns []recovery.Voter) error {
				if of != epoch.First(swarmID) || len(sns) != 3 || sns[0] != (recovery.Voter{Name: "sn-0", PeerID: "idsn0", Address: "192.0.2.1:30303"}) {
					t.Errorf("asked are %v of %v", sns, of)
				}
				return lives
			}
			return nil
		}, "the swarm lives", lives},
		"no file": {func(l *lostSwarm) error { return os.Remove(l.cfg.File) }, "no such file", os.ErrNotExist},
		"no operator": {func(l *lostSwarm) error {
			a, err := rpctest.NewAuthority("hospital.example")
			if err != nil {
				return err
			}
			l.cfg.Source, err = a.Issue("/swarm/sl/sl-1", time.Hour)
			return err
		}, "operator", nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLostSwarm(t)
			if err := tt.prepare(l); err != nil {
				t.Fatal(err)
			}
			_, err := restore.Restore(t.Context(), l.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if left := l.entries(); left != nil {
				t.Errorf("left in the directory: %v", left)
			}
		})
	}
}

// TestOtherFilesAreLeftAlone: a state directory in use, or with anything in it, is no place to restore to.
func TestOtherFilesAreLeftAlone(t *testing.T) {
	l := newLostSwarm(t)
	dir, err := identity.OpenStateDir(l.cfg.Dir, "sn-0", identity.RoleSN)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := restore.Restore(t.Context(), l.cfg); !errors.Is(err, restore.ErrNotEmpty) {
		t.Errorf("got %v", err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	if got := l.entries(); !slices.Equal(got, []string{"lock", "node.json"}) {
		t.Errorf("the directory holds %v", got)
	}
}
