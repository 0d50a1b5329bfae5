package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestSpeedOfTheOriginalsClientForMinutes prints how long rounds of 100 MiB between two peers take with each release of the original's client, and by
// how much that is longer than with this project's package in the same run. Every client merges as often; how fast it is wanted of none.
func TestSpeedOfTheOriginalsClientForMinutes(t *testing.T) {
	e2etest.NeedPython(t)
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("compares and judges nothing: SWARM_TEST_LONG=1 or make test-long")
	}
	w := newSwarm(t)
	w.one()
	const rounds = 7
	ours := w.secondsOfRounds(1, "ours", rounds, nil)
	t.Logf("ours: %.3f s", ours)
	for i, dialect := range []string{"2.0", "2.2", "2.3"} {
		theirs := w.secondsOfRounds(3+2*i, dialect, rounds, nil)
		t.Logf("release %s: %.3f s, ours times %.2f", dialect, theirs, theirs/ours)
	}
}

// secondsOfRounds has two SLs merge with a client and returns the median of the first one's rounds. more are options of SL i; nil: there are none.
func (w *swarm) secondsOfRounds(first int, client string, rounds int, more func(i int) []string) float64 {
	w.T.Helper()
	if more == nil {
		more = func(int) []string { return nil }
	}
	option := "--ml-client=original"
	if client == "ours" {
		option = "--ml-client=swarmlearning"
	}
	var sls []*e2etest.Proc
	for i := first; i < first+2; i++ {
		sls = append(sls, w.originalRuns(i, "rounds", client, append(more(i), option, "CONTRACT=speed-"+client, "ROUNDS="+strconv.Itoa(rounds))...))
	}
	finish(w.T, sls...)
	var seconds []float64
	content, err := os.ReadFile(filepath.Join(w.model(first), "rounds.json"))
	if err == nil {
		err = json.Unmarshal(content, &seconds)
	}
	if err != nil || len(seconds) < rounds {
		w.T.Fatalf("%s: %d rounds, want %d; %v", client, len(seconds), rounds, err)
	}
	slices.Sort(seconds)
	return seconds[len(seconds)/2]
}
