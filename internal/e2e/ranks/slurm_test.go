package ranks_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// standIns are Slurm's commands as far as the script uses them: the two hosts of a job are this one. srun starts a task on each, gives it the variables of a
// task, and with --kill-on-bad-exit ends all when one fails.
var standIns = map[string]string{
	"scontrol": "#!/bin/sh\n[ \"$*\" = \"show hostnames host-[1-2]\" ] || exit 2\necho 127.0.0.1\nsleep 1\necho host-2\n",
	"srun": `#!/bin/bash
[ "$1" = --kill-on-bad-exit=1 ] || exit 2
shift
tasks=()
for n in 0 1; do
  SLURM_NODEID=$n SLURM_PROCID=$n SLURM_NNODES=2 SLURM_JOB_ID=7 "$@" &
  tasks+=($!)
done
for _ in 0 1; do
  wait -n || { code=$?; kill "${tasks[@]}" 2>/dev/null; wait; exit "$code"; }
done
`,
}

// batch starts the batch script as Slurm does, on the first host of a job of two.
func (w *swarm) batch(name string, env ...string) *e2etest.Proc {
	w.T.Helper()
	dir := w.Path(name)
	train, err := os.ReadFile(filepath.Join(w.examples, "digits-ranks", "train.py"))
	err = errors.Join(err, os.MkdirAll(filepath.Join(dir, "bin"), 0o700), os.WriteFile(filepath.Join(dir, "train.py"), train, 0o600))
	for command, body := range standIns {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "bin", command), []byte(body), 0o700)) //nolint:gosec // a program
	}
	if err != nil {
		w.T.Fatal(err)
	}
	env = append([]string{
		"PATH=" + filepath.Join(dir, "bin") + ":" + e2etest.BinDir + ":/usr/local/bin:/usr/bin:/bin", "SLURM_JOB_NODELIST=host-[1-2]", "SLURM_JOB_ID=7", "TMPDIR=" + w.Dir, "RANKS=1", "PEER=" + name,
		"SN=" + w.Addr(1), "HOST_IP=" + w.Addr(11), "STATE=" + filepath.Join(dir, "state"), "MASTER_PORT=" + freePort(w.T), "SWARM_IDENTITY=embedded=" + w.Path("ca"),
		"DATA_DIR=" + w.data + "/0", "MODEL_DIR=" + filepath.Join(dir, "model"), "PYTHONDONTWRITEBYTECODE=1", "MIN_PEERS=1",
	}, env...)
	return e2etest.Start(w.T, name, dir, env, "/bin/bash", filepath.Join(w.examples, "digits-ranks", "slurm.sh"))
}

// TestSlurmScript runs the batch script with stand-ins for Slurm's commands: both hosts' ranks come to one model, the node ends with the job, and a rank that
// fails ends all.
func TestSlurmScript(t *testing.T) {
	needTorchrun(t)
	t.Parallel()
	w := withoutSLs(t, 2)
	w.first[0].Sees("Starting SWARM-API-SERVER on port: 30304")
	p := w.batch("hospital-a", "MAX_EPOCHS=3")
	p.Ends(limit)
	all := results(t, p.Output(), 2)
	if all[0] != all[1] {
		t.Errorf("ranks end with %v", all)
	}
	log, err := os.ReadFile(w.Path("hospital-a", "sl-7.log"))
	if err != nil || strings.Count(string(log), "session opened") != 1 {
		t.Errorf("the node's log: %v\n%s", err, e2etest.Last(string(log), 20))
	}
	p = w.batch("hospital-b", "MAX_EPOCHS=3", "DATA_DIR="+w.Path("none"))
	if code := p.Exits(); code == 0 || !strings.Contains(p.Output(), "none/test.npz") {
		t.Errorf("a job whose ranks have no data ends with %d:\n%s", code, p.Output())
	}
	for _, p := range w.first {
		p.Stop()
	}
	w.LeavesNothing()
}
