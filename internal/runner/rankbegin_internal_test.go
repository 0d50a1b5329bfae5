package runner

import (
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
