package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestStopsEarly: what a peer that ends before the others leaves counts as the swarm was started, as its program chooses nothing. All have 4
// when it ends with 100: with the 7 of the others that is 38, which they train to 41 and 44. Where it counts on they have 41 and 63.7 with it,
// and it counts in the final merge too.
func TestStopsEarly(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "83.852"},
		{[]string{"--checkin-default", "once"}, "44.000"},
	} {
		dir := t.TempDir()
		run := e2etest.Start(t, "local", dir, []string{"XDG_RUNTIME_DIR=" + dir, "XDG_STATE_HOME=" + dir}, append([]string{
			"swarmctl", "local", "run", "--peers", "3", "--platform", "PYT", "--python", e2etest.Python, "--model-dir", mustAbs(t, "testdata/checkin"),
			"--model-program", "program.py", "--out", filepath.Join(dir, "out"), "-e", "PEER={peer}",
		}, tt.args...)...)
		run.Exits()
		for _, peer := range []string{"sl-0", "sl-1", "sl-2"} {
			got, err := os.ReadFile(filepath.Join(dir, "out", peer, "final.txt"))
			if err != nil || string(got) != tt.want {
				t.Errorf("%v: %s has %s, want %s; %v", tt.args, peer, got, tt.want, err)
			}
		}
	}
}

// TestFinishedPeerIsWarnedOf: explain and the status line name a peer whose last weights count on, before the end and after it.
func TestFinishedPeerIsWarnedOf(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	start := func(i int, batches string) *e2etest.Proc { return w.alone(i, "MIN_PEERS=3", "BATCHES="+batches) }
	sls := []*e2etest.Proc{start(1, "2"), start(2, "20"), start(3, "20")}
	finish(t, sls...)
	w.Agree(1, 2, 3)
	for _, command := range []string{"explain contract e2e", "get contract status e2e"} {
		_, out := w.swarmctl(strings.Fields(command)...)
		if want := "sl-1 has finished; its last weights count 1/3 in every further merge; checkinModelOnTrainEnd='inactive' leaves them out"; !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", command, want, out)
		}
	}
}
