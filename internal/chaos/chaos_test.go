package chaos_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/chaos"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestMain plays the training program where a node asks for it.
func TestMain(m *testing.M) {
	if code, is := chaos.Program(os.Args, os.Stdout, os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(e2etest.Main(m))
}

// run wants no violation. SWARM_CHAOS_DIR keeps the logs.
func run(t *testing.T, cfg chaos.Config) *chaos.Report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Bin, cfg.Program, cfg.Out = e2etest.BinDir, self, t.Output()
	cfg.Dir = filepath.Join(t.TempDir(), "run")
	if keep := os.Getenv("SWARM_CHAOS_DIR"); keep != "" {
		cfg.Dir = filepath.Join(keep, fmt.Sprintf("seed-%d", cfg.Seed))
	}
	report, err := chaos.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Errorf("seed %d: %s", cfg.Seed, v.What)
	}
	if t.Failed() {
		t.Log("make chaos SEED=… and SWARM_CHAOS_DIR=… keep what the nodes said")
	}
	return report
}

// few are kinds that end soon.
var few = []chaos.Kind{
	"all-sns-kill", "leader-kill", "link-sl-sl", "link-sl-sn", "local-extend", "merged-truncate", "program-kill", "sl-kill", "sn-kill", "slots-removed",
}

// TestSwarmUnderAFewFaults is the driver's shortest run: most of what it does must work for what it finds to count.
func TestSwarmUnderAFewFaults(t *testing.T) {
	t.Parallel()
	r := run(t, chaos.Config{Seed: 94, SLs: 4, Waves: 2, Only: few, Floats: 20_000, Pace: 100 * time.Millisecond})
	if r.Computed == 0 || r.Taken == 0 || len(r.Faults) < 2 || len(r.Recoveries) != 3 || len(r.Ends) != 1 {
		t.Errorf("the run did too little: %s", r)
	}
}

// TestSwarmOnLoopback does what needs no root.
func TestSwarmOnLoopback(t *testing.T) {
	t.Parallel()
	r := run(t, chaos.Config{Seed: 1, SLs: 3, Waves: 1, Floats: 5_000, Pace: 100 * time.Millisecond, Loopback: true})
	if r.Computed == 0 || len(r.Ends) != 1 {
		t.Errorf("the run did too little: %s", r)
	}
}

// TestSwarmUnderFaultsForMinutes are five minutes with seeds that stay the same.
func TestSwarmUnderFaultsForMinutes(t *testing.T) {
	for _, seed := range []uint64{20, 26} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			run(t, chaos.Config{Seed: seed, For: 150 * time.Second, Training: 75 * time.Second})
		})
	}
}
