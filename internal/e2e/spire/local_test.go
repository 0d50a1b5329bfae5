package spire_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// One command brings up SPIRE and the swarm, trains, and takes all down again.
func TestLocalRunOnSpire(t *testing.T) {
	t.Parallel()
	e2etest.NeedPython(t)
	for _, name := range []string{"spire-server", "spire-agent"} {
		e2etest.Spire(t, name)
	}
	dir := spiretest.TempDir(t)
	w := e2etest.Swarm{T: t, Dir: dir}
	w.CopyProgram(w.Path("model"))
	p := e2etest.Start(t, "swarmctl", dir, []string{"TMPDIR=" + dir}, "swarmctl", "local", "run", "--identity", "spire", "--peers", "2", "--python", e2etest.Python,
		"--model-dir", w.Path("model"), "--model-program", "train.py", "--out", w.Path("out"))
	p.Ends(e2etest.Timeout)
	raw, err := os.ReadFile(w.Path("out", "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var summary struct {
		Rounds      int  `json:"rounds"`
		ModelsEqual bool `json:"models_equal"`
	}
	if err := json.Unmarshal(raw, &summary); err != nil || summary.Rounds != 5 || !summary.ModelsEqual {
		t.Errorf("summary: %s, %v; want 5 rounds and equal models", raw, err)
	}
	for name, text := range map[string]string{"spire-server": "SPIRE server is ready", "spire-agent": "Node attestation was successful", "sn-0": "spiffe://swarm.learning/swarm/sn"} {
		if log, err := os.ReadFile(w.Path("out", "logs", name+".log")); err != nil || !strings.Contains(string(log), text) {
			t.Errorf("the log of %s does not say %q: %v", name, text, err)
		}
	}
	leftovers(t, dir, "model", "out")
	e2etest.Start(t, "swarmctl", dir, nil, "swarmctl", "local", "run", "--identity", "nonsense").Sees("--identity nonsense is not for a local swarm", "embedded or spire")
}

// The swarm that local up keeps serves swarmctl with an identity from SPIRE, and leaves nothing.
func TestLocalUpOnSpire(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"spire-server", "spire-agent"} {
		e2etest.Spire(t, name)
	}
	dir := spiretest.TempDir(t)
	up := e2etest.Start(t, "swarmctl", dir, []string{"TMPDIR=" + dir}, "swarmctl", "local", "up", "--identity", "spire", "--peers", "1")
	up.Sees("API https://", "SWARM_PEER=sl-0", "swarm is up")
	list := e2etest.Start(t, "swarmctl list", dir, nil, "swarmctl", "list", "nodes")
	list.Ends(e2etest.Timeout)
	if !strings.Contains(list.Output(), "sl-0") {
		t.Errorf("list nodes says %q, want sl-0 in it", list.Output())
	}
	up.Stop()
	leftovers(t, dir, ".local")
}

// leftovers wants nothing in a folder but the files named, and no process that was told of it.
func leftovers(t *testing.T, dir string, but ...string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.Contains(" "+strings.Join(but, " ")+" ", " "+f.Name()+" ") {
			t.Errorf("%s is left", f.Name())
		}
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%s/environ", p.Name()))
		if err == nil && p.Name() != fmt.Sprint(os.Getpid()) && strings.Contains(string(env), "TMPDIR="+dir) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", p.Name()))
			t.Errorf("process %s is left: %s", p.Name(), strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
}
