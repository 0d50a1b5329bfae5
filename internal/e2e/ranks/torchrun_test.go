package ranks_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// Commands of docs/operations/ranks.md.
const (
	oneHost    = "torchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:0 --nproc_per_node=2 train.py"
	firstHost  = "torchrun --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 --master_port=29500 --nproc_per_node=1 train.py"
	secondHost = "torchrun --nnodes=2 --node_rank=1 --master_addr=10.0.0.1 --master_port=29500 --nproc_per_node=1 train.py"
)

// limit is for programs that import torch six times at once, beside other tests.
const limit = 3 * time.Minute

func needTorchrun(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("torchrun"); err != nil {
		t.Skip("needs torchrun: apt-get install python3-torch")
	}
}

// TestPeersOfTwoRanks: three peers of two processes each, one of them on two hosts of which the second has no node, come to one model at
// all six, as good as that of peers of one process.
func TestPeersOfTwoRanks(t *testing.T) {
	needTorchrun(t)
	t.Parallel()
	w := newSwarm(t, 3)
	env := []string{"MIN_PEERS=3", "MAX_EPOCHS=15"}
	at := []string{"10.0.0.1", "127.0.0.1", "29500", freePort(t)}
	programs := []*e2etest.Proc{
		w.shell(1, "peer 1", true, documented(t, oneHost), env...),
		w.shell(2, "peer 2", true, documented(t, oneHost), env...),
		w.shell(3, "peer 3, first host", true, documented(t, firstHost, at...), env...),
		w.shell(3, "peer 3, second host", false, documented(t, secondHost, at...), env...),
	}
	for _, p := range programs {
		p.Ends(limit)
	}
	all := append(results(t, programs[0].Output(), 2), results(t, programs[1].Output(), 2)...)
	all = append(all, results(t, programs[2].Output()+programs[3].Output(), 2)...)
	for _, r := range all {
		if r != all[0] {
			t.Errorf("a rank ends with %v, another with %v; want one model", r, all[0])
		}
		if r.accuracy <= 0.93 { // what python/tests/real wants of digits-pyt, whose peers are one process each
			t.Errorf("accuracy %v, want more than 0.93: alone a peer comes to 0.4", r.accuracy)
		}
	}
	for i, p := range w.sls {
		if got := strings.Count(p.Output(), "session opened"); got != 1 {
			t.Errorf("sl-%d opened %d sessions, want 1: rank 0 alone speaks for its peer", i+1, got)
		}
		if strings.Contains(p.Output(), "gave its session up") {
			t.Errorf("sl-%d takes the end of a training for a failure", i+1)
		}
	}
}

// TestKilledRanksForMinutes: the peer of a rank that is killed ends, rank 0's too, which can tell nobody; both nodes' logs say so, and the others go on. With
// each change TestRanksOfAnSL kills one.
func TestKilledRanksForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("starts five programs that train on: SWARM_TEST_LONG=1 or make test-long")
	}
	needTorchrun(t)
	t.Parallel()
	w := newSwarm(t, 3)
	env := []string{"MIN_PEERS=1", "MAX_EPOCHS=2000"} // far more than are trained
	struck := []*e2etest.Proc{w.shell(1, "peer 1", true, oneHost, env...), w.shell(2, "peer 2", true, oneHost, env...)}
	other := w.shell(3, "peer 3", true, e2etest.Environment(t, "dev")+" train.py", append(env, "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+freePort(t))...)
	for i, p := range struck {
		p.Sees("round 3: ")
		if err := syscall.Kill(w.rank(i+1, i), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range struck {
		if code := p.Exits(); code == 0 {
			t.Errorf("the peer of a killed rank %d ends with exit code 0", i)
		}
		w.sls[i].Sees("the program gave its session up")
	}
	before := len(other.Output())
	w.Until("round of the peer that is left", func() bool { return strings.Contains(other.Output()[before:], ": merged with sl-3 in ") })
}

// rank is the process ID of a rank of peer i.
func (w *swarm) rank(i, rank int) int {
	w.T.Helper()
	return w.process("SWARM_BRIDGE_DIR="+w.Bridge(i), fmt.Sprintf("RANK=%d", rank))
}

// process is the process ID of one that has these variables in its environment.
func (w *swarm) process(has ...string) int {
	w.T.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		w.T.Fatal(err)
	}
	for _, file := range all {
		env, err := os.ReadFile(file)
		env = append([]byte{0}, env...)
		lacks := func(kv string) bool { return !bytes.Contains(env, []byte("\x00"+kv+"\x00")) }
		if err != nil || slices.ContainsFunc(has, lacks) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			w.T.Fatal(err)
		}
		return pid
	}
	w.T.Fatalf("no process has %q", has)
	return 0
}
