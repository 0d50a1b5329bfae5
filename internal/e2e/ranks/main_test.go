package ranks_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// swarm is one SN and SLs that start no program.
type swarm struct {
	*e2etest.Swarm
	examples, data string
	sls            []*e2etest.Proc
	first          []*e2etest.Proc // the SN, and the authority before it, which all others need
}

// newSwarm starts them, with the digits divided among the peers. The first round waits for all, however slow one starts; nobody waits
// for a session that was given up.
func newSwarm(t *testing.T, peers int) *swarm {
	t.Helper()
	w := withoutSLs(t, peers)
	for i := 1; i <= peers; i++ {
		w.sls = append(w.sls, w.Start(10+i, fmt.Sprintf("sl-%d", i),
			"swarmd", "run-sl", "--name", fmt.Sprintf("sl-%d", i), "--host-ip", w.Addr(10+i), "--sn-ip", w.Addr(1), "--identity", "embedded="+w.Path("ca"),
			"--state-dir", w.Path(fmt.Sprintf("sl%d", i)), "--bridge-dir", w.Bridge(i), "--attach", fmt.Sprintf("--expected-peers=%d", peers)))
	}
	for _, p := range w.sls {
		p.Sees("\nexport SWARM_BRIDGE_DIR=")
	}
	return w
}

// withoutSLs starts an SN, with the digits divided among peers.
func withoutSLs(t *testing.T, peers int) *swarm {
	t.Helper()
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	w := &swarm{examples: examples}
	w.Swarm = e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + w.Path("ca")} })
	w.data = w.Path("data")
	split := exec.CommandContext(t.Context(), e2etest.Environment(t, "dev"), filepath.Join(examples, "digits-pyt", "split.py"), "--peers", fmt.Sprint(peers), "--out", w.data)
	if out, err := split.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	authority := e2etest.Start(t, "authority", w.Dir, nil, "swarmd", "run-authority", "--dir", w.Path("ca"))
	w.first = []*e2etest.Proc{w.SN(1, "--full-quorum-wait", "60s"), authority}
	return w
}

// shell runs a line in a shell of its own, in the folder of the example, with what peer i's program needs; export: with the line by which
// its SL has said where it is.
func (w *swarm) shell(i int, name string, export bool, line string, env ...string) *e2etest.Proc {
	w.T.Helper()
	given := "export PYTHONPATH=" + filepath.Join(filepath.Dir(w.examples), "python", "src")
	if export {
		given = regexp.MustCompile(`(?m)^export .*$`).FindString(w.sls[i-1].Output())
	}
	env = append([]string{
		fmt.Sprintf("DATA_DIR=%s/%d", w.data, i-1), fmt.Sprintf("MODEL_DIR=%s", w.Path(fmt.Sprintf("model%d", i))), "PYTHONDONTWRITEBYTECODE=1",
		"PET_REDIRECTS=1", "PET_TEE=1", // torchrun of torch 1.13 fails on Python 3.11 without them
		"TMPDIR=" + w.Dir, // where torchrun keeps logs
	}, env...)
	return e2etest.Start(w.T, name, filepath.Join(w.examples, "digits-ranks"), env, "/bin/sh", "-c", given+"\nexec "+line)
}

// documented wants a command in docs/operations/ranks.md and replaces in it what is an example there.
func documented(t *testing.T, command string, replace ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operations/ranks.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "    "+command+"\n") {
		t.Errorf("docs/operations/ranks.md lacks the command that is tested: %s", command)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(command, replace[i]) {
			t.Fatalf("%q is not in %q", replace[i], command)
		}
	}
	return strings.NewReplacer(replace...).Replace(command)
}

// freePort is one that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// result is what a rank says at its end.
type result struct {
	accuracy float64
	model    string
}

var ending = regexp.MustCompile(`rank (\d) of (\d): final test accuracy: ([0-9.]+) of model ([0-9a-f]{64})`)

// results are those of all ranks of a peer, by rank.
func results(t *testing.T, said string, ranks int) []result {
	t.Helper()
	all := make([]result, ranks)
	for _, m := range ending.FindAllStringSubmatch(said, -1) {
		var rank, of int
		var r result
		if _, err := fmt.Sscan(m[1], &rank); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(m[2], &of); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(m[3], &r.accuracy); err != nil {
			t.Fatal(err)
		}
		r.model = m[4]
		if of != ranks || rank >= ranks || all[rank].model != "" {
			t.Fatalf("%q, want each of %d ranks once", m[0], ranks)
		}
		all[rank] = r
	}
	for rank, r := range all {
		if r.model == "" {
			t.Errorf("rank %d of %d says no result:\n%s", rank, ranks, e2etest.Last(said, 30))
		}
	}
	return all
}
