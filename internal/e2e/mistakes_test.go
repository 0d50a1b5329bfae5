package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// mistaken starts `swarmctl local run` of the program that makes mistakes.
func mistaken(t *testing.T, dir string, args ...string) *e2etest.Proc {
	t.Helper()
	run := []string{
		"swarmctl", "local", "run", "--platform", "PYT", "--python", e2etest.Python, "--model-dir", mustAbs(t, "testdata/mistakes"), "--model-program", "train.py",
		"--data-dir", dir, "--out", filepath.Join(dir, "out"),
	}
	return e2etest.Start(t, "local", dir, []string{"XDG_RUNTIME_DIR=" + dir, "XDG_STATE_HOME=" + dir}, append(run, args...)...)
}

// TestOrdinaryMistakes: four ordinary mistakes at once, none of which is an error: the run ends with an exit code of its own, and says whose
// they are, as the log of every peer's program does.
func TestOrdinaryMistakes(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	dir := t.TempDir()
	run := mistaken(t, dir, "--peers", "4")
	if code := run.Exits(); code != 9 {
		t.Fatalf("exit code %d, want 9", code)
	}
	want := []struct{ reason, peer, text string }{
		{"SAME_DATA", "", "all 4 peers have the same data"},
		{"NO_DATA", "sl-1", "sl-1 has trained no batch"},
		{"MODEL_UNCHANGED", "sl-2", "no tensor of sl-2 has changed since round 1"},
		{"HOOKS_UNUSED", "sl-3", "on_batch_end was never called at sl-3"},
	}
	var summary struct {
		Warnings []struct{ Reason, Peer, Text string }
	}
	data, err := os.ReadFile(filepath.Join(dir, "out", "summary.json"))
	if err == nil {
		err = json.Unmarshal(data, &summary)
	}
	if err != nil || len(summary.Warnings) != len(want) {
		t.Fatalf("summary has %+v, want %d warnings; %v", summary.Warnings, len(want), err)
	}
	for _, w := range want {
		if !slices.ContainsFunc(summary.Warnings, func(x struct{ Reason, Peer, Text string }) bool {
			return x.Reason == w.reason && x.Peer == w.peer && strings.HasPrefix(x.Text, w.text)
		}) {
			t.Errorf("summary lacks %+v: %+v", w, summary.Warnings)
		}
		if !strings.Contains(run.Output(), "\n    "+w.text) {
			t.Errorf("%q is not said at the end", w.text)
		}
		for peer := range 4 {
			log, err := os.ReadFile(filepath.Join(dir, "out", "sl-"+"0123"[peer:peer+1], "program.log"))
			if said := strings.Count(string(log), " : WARNING : "+w.text); err != nil || w.peer != "" && said != 1 {
				t.Errorf("the log of sl-%d has %q %d times, want once; %v", peer, w.text, said, err)
			}
		}
	}
}

// TestMergesThatAreNeverDue is the fifth one, which all peers must make, and here an error.
func TestMergesThatAreNeverDue(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	run := mistaken(t, t.TempDir(), "--peers", "2", "-e", "PART={peer}", "-e", "MISTAKE=never due", "--strict")
	code := run.Exits()
	if got := strings.Count(run.Output(), "    syncFrequency is 100000, the training of sl-"); code != 1 || got != 2 || strings.Contains(run.Output(), "same data") {
		t.Errorf("exit code %d and %d warnings at the end, want 1 and those of both peers alone", code, got)
	}
}

// TestMorePeersThanThereAre: a program that wants more peers than the run has ends it at once.
func TestMorePeersThanThereAre(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	run := mistaken(t, t.TempDir(), "--peers", "2", "-e", "PEERS=5")
	if code := run.Exits(); code != 1 || !strings.Contains(run.Output(), "minPeers is 5, but only 2 peers are expected") {
		t.Errorf("exit code %d, want 1 and why", code)
	}
}
