package runner

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/rendezvous"
)

// TestRankZeroInAContainer begins by this executable, before whatever else its program begins by, and its host's name leads to its address.
func TestRankZeroInAContainer(t *testing.T) {
	own := netip.MustParseAddr("10.0.0.9")
	meets := &rendezvous.Meeting{At: netip.AddrPortFrom(own, 29400), Own: own, Ranks: []netip.Addr{own, own}, Within: time.Second}
	c := &containers{cfg: Config{Spec: Spec{SpillDir: t.TempDir()}}}
	given := []string{"db:10.0.0.1"}
	spec := container.Spec{Front: []string{"/original"}, Hosts: given}
	if err := c.beginAsRank(&spec, meets); err != nil {
		t.Fatal(err)
	}
	if want := spillInside + "/rank/swarmd run-rank -at=10.0.0.9:29400 -own=10.0.0.9 -within=1s -ranks=10.0.0.9,10.0.0.9 -- /original"; strings.Join(spec.Front, " ") != want {
		t.Errorf("it begins with %q, want %s", spec.Front, want)
	}
	if spec.Hostname != "node-0" || !slices.Equal(spec.Hosts, []string{"db:10.0.0.1", "node-0:10.0.0.9"}) || len(given) != 1 {
		t.Errorf("its host is %s, of %q", spec.Hostname, spec.Hosts)
	}
	if info, err := os.Stat(filepath.Join(c.cfg.SpillDir, "rank/swarmd")); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestBeginsNowhereElse: a program that could write to the directory has left links where the next one's directories go.
func TestBeginsNowhereElse(t *testing.T) {
	own := netip.MustParseAddr("10.0.0.9")
	for _, tt := range []struct {
		name   string
		begins func(c *containers) error
	}{
		{rankDir, func(c *containers) error {
			return c.beginAsRank(&container.Spec{}, &rendezvous.Meeting{At: netip.AddrPortFrom(own, 29400), Own: own, Ranks: []netip.Addr{own}})
		}},
		{originalDir, func(c *containers) error { return c.serveOriginal(&container.Spec{}) }},
	} {
		other := t.TempDir()
		mine := filepath.Join(other, executable)
		c := &containers{cfg: Config{Spec: Spec{SpillDir: t.TempDir()}, Log: slog.New(slog.DiscardHandler)}}
		at := filepath.Join(c.cfg.SpillDir, tt.name)
		if err := errors.Join(os.Chmod(other, 0o700), os.WriteFile(mine, []byte("mine"), 0o600), os.Symlink(other, at)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time over what is left of the first
			if err := tt.begins(c); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(at)
			if err != nil || info.Mode() != os.ModeDir|0o711 {
				t.Errorf("%s: %v, %v", tt.name, info, err)
			}
		}
		raw, err := os.ReadFile(mine)
		info, statErr := os.Stat(other)
		if err != nil || statErr != nil || string(raw) != "mine" || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: what a link leads to is %q of a folder of mode %v, %v", tt.name, raw, info.Mode(), errors.Join(err, statErr))
		}
	}
}
