package swop_test

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
)

// TestArtifactsAreHandedOut in pieces, with the digest of all of them at the end.
func TestArtifactsAreHandedOut(t *testing.T) {
	s := &artifacts.Store{Dir: t.TempDir(), Most: 1 << 20, Age: time.Hour, Log: slog.New(slog.DiscardHandler)}
	l := work.Label{Assignment: "7", Epoch: 1}
	dir, err := s.Make(l, "node", os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(strings.Repeat("x", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(l); err != nil {
		t.Fatal(err)
	}
	host := swop.Logs{Node: "h", Left: s}
	digest, said, pieces := sha256.New(), "", 0
	err = host.Log(t.Context(), logs.Wanted{Assignment: "7", Artifacts: true}, func(l logs.Line) error {
		if len(l.Data) > 0 {
			pieces++
		}
		_, _ = digest.Write(l.Data)
		said += l.Text
		return nil
	})
	if want := "sha256 " + hex.EncodeToString(digest.Sum(nil)); err != nil || said != want || pieces < 5 {
		t.Errorf("%q, want %q in %d pieces, %v", said, want, pieces, err)
	}
	err = host.Log(t.Context(), logs.Wanted{Assignment: "8", Artifacts: true}, func(logs.Line) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "h knows of no artifacts of assignment 8") {
		t.Error(err)
	}
}
