package ranks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// ofSLs is a swarm whose SLs start their ranks themselves, on SWOPs.
type ofSLs struct {
	*swarm
	python string
	swops  []*e2etest.Proc
}

// newSLs starts an SN and SWOPs that carry out jobs of sl-1 to sl-3 as processes; each SL has a part of the digits.
func newSLs(t *testing.T, peers, hosts int) *ofSLs {
	t.Helper()
	w := &ofSLs{swarm: withoutSLs(t, peers), python: e2etest.Environment(t, "dev")}
	const policy = "sentences:\n- Allow spiffe://swarm.learning/swarm/sl to use host where all {task.type='RUN_JOB'}\n"
	for i := 1; i <= hosts; i++ {
		w.swop(i, policy, []string{"SWARM_PYTHON=" + w.python})
	}
	for _, p := range w.swops {
		p.Sees("Ready for Task Execution!")
	}
	return w
}

// swop starts SWOP i, whose owner has a policy.
func (w *ofSLs) swop(i int, policy string, env []string, more ...string) {
	w.T.Helper()
	dir := w.Path(fmt.Sprintf("usr%d", i))
	profile := fmt.Sprintf("groupname: g\ntaskrunner: defaulttaskrunner.taskdb.sml.hpe\npolicyuri: policy.yaml\nnetwork: none\nresourcemgr:\napls:\napisrv:\n  locator:\n    host: %s\n    port: null\n    service: null\nenvvars: null\nnodes:\n"+
		"  - slnodedef: { idx: 0, identity: null, slhostname: null, usrhostname: null, slhostip: %s, slport: null, slenvvars: null, usrenvvars: null }\n", w.Addr(1), w.Addr(90))
	w.writes(dir, map[string]string{"profile.yaml": profile, "policy.yaml": policy})
	w.swops = append(w.swops, e2etest.Start(w.T, fmt.Sprintf("swop-%d", i), w.Dir, env, append([]string{
		"swarmd", "run-swop", "--name", fmt.Sprintf("swop-%d", i), "--host-ip", w.Addr(20 + i),
		"--usr-dir", dir, "--profile-file-name", "profile.yaml", "--state-dir", w.Path(fmt.Sprintf("swop%d", i)), "--identity", "embedded=" + w.Path("ca"),
	}, more...)...))
}

// writes makes a folder with files.
func (w *ofSLs) writes(dir string, files map[string]string) {
	w.T.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.T.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.T.Fatal(err)
		}
	}
}

// args are the options of SL i, which has a folder with a program.
func (w *ofSLs) args(i int, program string) []string {
	w.T.Helper()
	model := w.Path(fmt.Sprintf("model%d", i))
	w.writes(model, map[string]string{"train.py": program})
	return []string{
		"swarmd", "run-sl", "--name", fmt.Sprintf("sl-%d", i), "--host-ip", w.Addr(10 + i), "--sn-ip", w.Addr(1), "--identity", "embedded=" + w.Path("ca"),
		"--state-dir", w.Path(fmt.Sprintf("sl%d", i)), "--bridge-dir", w.Bridge(i), "--sl-platform", "PYT", "--model-dir", model, "--model-program", "train.py",
	}
}

// digits is the program that all train.
func (w *ofSLs) digits() string {
	w.T.Helper()
	program, err := os.ReadFile(filepath.Join(w.examples, "digits-ranks", "train.py"))
	if err != nil {
		w.T.Fatal(err)
	}
	return string(program)
}

// sl starts SL i with so many ranks, or one program.
func (w *ofSLs) sl(i, peers, ranks int, more ...string) *e2etest.Proc {
	w.T.Helper()
	data := fmt.Sprintf("%s/%d", w.data, i-1)
	args := append(w.args(i, w.digits()), "--python", w.python, "--data-dir", data, fmt.Sprintf("--expected-peers=%d", peers))
	env := []string{fmt.Sprintf("MIN_PEERS=%d", peers), "MAX_EPOCHS=15"}
	for _, kv := range env {
		args = append(args, "--env="+kv)
	}
	if ranks == 1 { // the program is the same, and is told so
		for _, kv := range []string{"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(w.T)} {
			args = append(args, "--env="+kv)
		}
		return w.Start(10+i, fmt.Sprintf("sl-%d", i), append(args, more...)...)
	}
	for _, kv := range append(env, "DATA_DIR="+data) {
		args = append(args, "--rank-env="+kv)
	}
	return w.Start(10+i, fmt.Sprintf("sl-%d", i), append(append(args, fmt.Sprintf("--ranks=%d", ranks)), more...)...)
}

// pidOf is the process ID of a rank that a host runs of an SL, by its environment.
func (w *ofSLs) pidOf(i, rank int) int {
	w.T.Helper()
	return w.process(fmt.Sprintf("SWARM_JOB_NAME=sl-%d-ranks", i), fmt.Sprintf("RANK=%d", rank), "MASTER_ADDR="+w.Addr(10+i))
}

// swarmctl runs a command of an operator and returns what it prints.
func (w *ofSLs) swarmctl(args ...string) string {
	w.T.Helper()
	cmd := exec.CommandContext(w.T.Context(), filepath.Join(e2etest.BinDir, "swarmctl"), append(args, "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"))...)
	cmd.Dir, cmd.Env = w.Dir, []string{"HOME=" + w.Dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.T.Errorf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestRanksOfAnSL: an SL with a rank of its own and one on a host is one peer beside one of a single rank, and comes to the same model; when a rank is
// killed both are started again, and the training is completed. Beside them are SLs of which one is killed and one stopped: no rank outlives them.
func TestRanksOfAnSL(t *testing.T) {
	needTorchrun(t)
	t.Parallel()
	w := newSLs(t, 2, 3)
	killed, stopped := w.idle(3, "swop-2"), w.idle(4, "swop-3")
	peer, single := w.sl(1, 2, 2, "--restarts=1", "--rank-host=swop-1"), w.sl(2, 2, 1)
	for i, p := range []*e2etest.Proc{killed, stopped} {
		p.Sees("rank 0 is there")
		w.Until("the rank on a host to be there", func() bool {
			return strings.Contains(w.swarmctl("get", "logs", fmt.Sprintf("sl-%d-ranks", 3+i)), fmt.Sprintf("swop-%d/rank/1: rank 1 is there", 2+i))
		})
	}
	orphan := w.pidOf(3, 1)
	killed.Kill() // its hosts' time for it runs beside the training
	peer.Sees("round 2: ")
	w.onePeer()
	zero, one, other := w.pidOf(1, 0), w.pidOf(1, 1), w.pidOf(4, 1)
	if err := errors.Join(
		syscall.Kill(zero, syscall.SIGSTOP), // it must not fail of the other's end before a busy machine has told of that
		syscall.Kill(one, syscall.SIGKILL),
		stopped.Cmd.Process.Signal(syscall.SIGTERM),
	); err != nil {
		t.Fatal(err)
	}
	stopped.Exits()
	if out := w.swarmctl("get", "job", "status", "sl-4-ranks"); !strings.Contains(out, "end         cancelled") || !strings.Contains(out, "its SL stops") {
		t.Errorf("the ranks of an SL that was stopped:\n%s", out)
	}
	peer.Ends(limit)
	single.Ends(limit)
	peer.Sees("all are started again restart=1 of=1 why=\"exit code 137: rank 1 on host swop-1 ended with exit code 137\"")
	w.agree([]string{peer.Output() + w.swarmctl("get", "logs", "sl-1-ranks"), single.Output()}, 2, 1)
	if got := strings.Count(peer.Output(), "swarm.SL : INFO : session opened"); got != 2 {
		t.Errorf("sl-1 opened %d sessions, want one for each start: rank 0 alone speaks for its peer", got)
	}
	for _, pid := range []int{orphan, other} {
		w.UntilWithin(limit, "the end of a rank whose SL is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
	w.UntilWithin(limit, "the end of the killed SL's job", func() bool {
		out := w.swarmctl("get", "job", "status", "sl-3-ranks")
		return strings.Contains(out, "end         host_lost") && strings.Contains(out, "SL sl-3, which runs rank 0, is gone")
	})
	for _, dir := range []string{w.Path("sl3"), w.Bridge(3)} { // what a node that is killed leaves is its own to remove, when it is started again
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
}

// stop ends all nodes whose SLs have ended, and wants nothing to be left: no rank on a host either.
func (w *ofSLs) stop() {
	w.T.Helper()
	for _, p := range slices.Concat(w.swops, w.first) {
		p.Stop()
	}
	w.LeavesNothing()
}

// idle starts SL i with a rank of its own and one on a host, neither of which takes part in anything.
func (w *ofSLs) idle(i int, host string) *e2etest.Proc {
	w.T.Helper()
	const program = "import os, time\nprint('rank', os.environ['RANK'], 'is there', flush=True)\ntime.sleep(1000)\n"
	return w.Start(10+i, fmt.Sprintf("sl-%d", i), append(w.args(i, program), "--python", w.python, "--ranks=2", "--rank-host="+host)...)
}

// onePeer holds that SL 1 of two ranks is one session, of the weight of SL 2, which has one.
func (w *ofSLs) onePeer() {
	w.T.Helper()
	type session struct {
		Node, State   string
		Weight, Ranks uint32
	}
	var got struct{ Sessions []session }
	out := w.swarmctl("get", "contract", "status", "digits", "-o", "json")
	want := []session{{"sl-1", "open", 1, 2}, {"sl-2", "open", 1, 0}}
	if err := json.Unmarshal([]byte(out), &got); err != nil || !slices.Equal(got.Sessions, want) {
		w.T.Errorf("sessions %+v, want %+v: %v\n%s", got.Sessions, want, err, out)
	}
	for what, want := range map[string]string{"get contract status digits": " 2 ranks\n", "list nodes": " 2 ranks", "get job status sl-1-ranks": "beside      SL sl-1, which runs rank 0 itself\n"} {
		if out := w.swarmctl(strings.Fields(what)...); !strings.Contains(out, want) {
			w.T.Errorf("%s lacks %q:\n%s", what, want, out)
		}
	}
}

// agree holds that all ranks of all peers have ended with one model, which is as good as that of peers of one process. said is what each peer has said, and
// ranks how many it has.
func (w *ofSLs) agree(said []string, ranks ...int) {
	w.T.Helper()
	var all []result
	for i, text := range said {
		all = append(all, results(w.T, text, ranks[i])...)
	}
	for _, r := range all {
		if r != all[0] || r.accuracy <= 0.93 { // what python/tests/real wants of digits-pyt, whose peers are one process each
			w.T.Errorf("a rank ends with %v, another with %v; want one model of more than 0.93", r, all[0])
		}
	}
}

// TestPeersOfSLsForMinutes: three peers of two ranks, all on one host, come to one model at all six ranks, as good as that of three peers of one rank.
func TestPeersOfSLsForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("starts nine programs: SWARM_TEST_LONG=1 or make test-long")
	}
	needTorchrun(t)
	accuracy := map[int]float64{}
	for _, ranks := range []int{2, 1} {
		w := newSLs(t, 3, 3)
		var peers []*e2etest.Proc
		for i := range 3 {
			peers = append(peers, w.sl(i+1, 3, ranks, hostOf(ranks, i)...))
		}
		var said []string
		for i, p := range peers {
			p.Ends(limit)
			text := p.Output()
			if ranks > 1 {
				text += w.swarmctl("get", "logs", fmt.Sprintf("sl-%d-ranks", i+1))
			}
			said = append(said, text)
		}
		w.agree(said, ranks, ranks, ranks)
		w.stop()
		accuracy[ranks] = results(t, said[0], ranks)[0].accuracy
	}
	t.Logf("final test accuracy: %.4f of peers of two ranks, %.4f of peers of one", accuracy[2], accuracy[1])
	if accuracy[2] < accuracy[1]-0.02 {
		t.Errorf("peers of two ranks come to %v, those of one to %v", accuracy[2], accuracy[1])
	}
}

// hostOf are the options that give an SL a host of its own for its ranks.
func hostOf(ranks, i int) []string {
	if ranks == 1 {
		return nil
	}
	return []string{fmt.Sprintf("--rank-host=swop-%d", i+1)}
}
