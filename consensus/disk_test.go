package consensus_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
)

// diskConfig is a server on disk; no bubble, because the log store's file calls are no idle wait.
func diskConfig(dir string) consensus.Config {
	peer := consensus.Peer{PeerID: "ida", Role: "sn"}
	return consensus.Config{
		Name: "a", Address: address("a"), Dir: dir, Network: newMemNet().node(peer), Log: testLog(), Prover: prover{},
		Timing: consensus.Timing{Heartbeat: 50 * time.Millisecond, Election: 50 * time.Millisecond, Lease: 50 * time.Millisecond},
	}
}

// onDisk opens the server, runs it while fn works with it, and closes it.
func onDisk(t *testing.T, dir string, fn func(ctx context.Context, g *consensus.Group)) {
	t.Helper()
	g, err := consensus.Open(diskConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	fn(ctx, g)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestOnDisk(t *testing.T) {
	dir := t.TempDir()
	onDisk(t, dir, func(ctx context.Context, g *consensus.Group) {
		if err := g.Bootstrap(ctx, state.InitSwarm{SwarmID: "swarm1", AtMS: 1}, register("a")); err != nil {
			t.Fatal(err)
		}
	})
	onDisk(t, dir, func(ctx context.Context, g *consensus.Group) {
		if !g.HasState() {
			t.Error("the state is gone")
		}
		if err := g.Bootstrap(ctx, state.InitSwarm{SwarmID: "swarm1", AtMS: 1}); err != nil {
			t.Errorf("bootstrap again: %v", err)
		}
		if err := g.Barrier(ctx); err != nil {
			t.Error(err)
		}
		if got := g.View(); got.SwarmID != "swarm1" || got.Nodes["a"] == nil {
			t.Errorf("got %+v", got)
		}
	})
	if err := os.RemoveAll(filepath.Join(dir, "raft", "log")); err != nil {
		t.Fatal(err)
	}
	if _, err := consensus.Open(diskConfig(dir)); err == nil || !strings.Contains(err.Error(), "was a member") {
		t.Errorf("open without its log: got %v, want a refusal", err)
	}
}

func TestCorruptLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	onDisk(t, dir, func(ctx context.Context, g *consensus.Group) {
		if err := g.Bootstrap(ctx, state.InitSwarm{SwarmID: "swarm1", AtMS: 1}); err != nil {
			t.Fatal(err)
		}
	})
	corrupted := 0
	err := filepath.WalkDir(filepath.Join(dir, "raft", "log"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".wal") {
			return err
		}
		corrupted++
		return os.WriteFile(path, []byte(strings.Repeat("x", 4096)), 0o600)
	})
	if err != nil || corrupted == 0 {
		t.Fatalf("corrupted %d files: %v", corrupted, err)
	}
	g, err := consensus.Open(diskConfig(dir))
	if err == nil {
		_ = g.Close()
		t.Fatal("a corrupt log was opened")
	}
	t.Log(err)
}
