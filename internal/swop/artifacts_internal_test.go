package swop

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
)

// TestArtifactsAreSwept: what a member has left that is not hosted any more is kept as soon as the swarm has shown what is, and from then on.
func TestArtifactsAreSwept(t *testing.T) {
	s := &artifacts.Store{Dir: t.TempDir(), Most: 1 << 20, Age: 24 * time.Hour, Log: slog.New(slog.DiscardHandler)}
	makes := func(member uint32) {
		dir, err := s.Make(work.Label{Assignment: "7", Epoch: 1, Member: member}, "node", os.Geteuid(), os.Getegid())
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	live := func(want int) {
		t.Helper()
		synctest.Wait()
		if all, err := os.ReadDir(filepath.Join(s.Dir, "live")); err != nil || len(all) != want {
			t.Error(all, err)
		}
	}
	makes(0)
	makes(1)
	synctest.Test(t, func(t *testing.T) {
		l := Logs{Node: "h", SwarmID: func() string { return "s" }, View: NewView(), Left: s}
		go func() { _ = sweepLeft(t.Context(), l, s.Log) }()
		live(2)
		l.View.Take([]task.Hosted{{Request: task.Request{ID: "7"}, Epoch: 1, Members: []task.HostedMember{{Index: 1}}}})
		live(1)
		l.View.Take(nil)
		live(1)
		time.Sleep(sweepEvery)
		live(0)
	})
}

// TestArtifactsOfARelativeStateDir: members, which have other working directories, are told where their folder is from the root on.
func TestArtifactsOfARelativeStateDir(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := leftOf(Config{StateDir: "state", Policy: &policy.Policy{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := s.Make(work.Label{Assignment: "7", Epoch: 1}, "node", os.Geteuid(), os.Getegid())
	if err != nil || !filepath.IsAbs(dir) {
		t.Fatalf("%q, %v", dir, err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if from, err := filepath.Rel(filepath.Join(here, "state"), dir); err != nil || !filepath.IsLocal(from) {
		t.Errorf("%q is not in %q", dir, here)
	}
}
