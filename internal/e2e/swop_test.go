package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/start"
)

// swop starts SWOP i, whose profile has the SLs 2i-1 and 2i, as processes.
func (w *swarm) swop(i int, extra ...string) *e2etest.Proc {
	w.T.Helper()
	w.CopyProgram(w.Path("private"))
	profile := fmt.Sprintf("groupname: g%d\ntaskrunner: %s\npolicyuri: policy.yaml\nnetwork: none\nresourcemgr:\napls:\napisrv:\n  locator:\n    host: %s\n    port: null\n    service: null\nenvvars: null\nnodes:\n",
		i, task.DefaultTaskrunner, w.Addr(1))
	for idx := range 2 {
		n := 2*i - 1 + idx
		profile += fmt.Sprintf("  - slnodedef:\n      idx: %d\n      identity: null\n      slhostname: null\n      usrhostname: null\n      slhostip: %s\n      slport: null\n"+
			"      privatedata: { src: %s, mType: BIND }\n      slenvvars: null\n      usrenvvars: [SEED: %d, SWARM_METRICS_FILE: %s]\n", idx, w.Addr(10+n), w.Path("private"), n, w.Metrics(n))
	}
	dir := w.Path(fmt.Sprintf("usr%d", i))
	for name, text := range map[string]string{"profile.yaml": profile, "policy.yaml": targets + "sentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where all {runtime='process'}\nfolders: {runs: {path: " + w.Path("runs") + ", use: runs}}\nforwards: [spiffe://swarm.learning/swarm/swci]\n"} {
		if err := errorOf(os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/"+name, []byte(text), 0o600)); err != nil {
			w.T.Fatal(err)
		}
	}
	return e2etest.Start(w.T, fmt.Sprintf("swop-%d", i), w.Dir, nil, append([]string{
		"swarmd", "run-swop", "--name", fmt.Sprintf("swop-%d", i), "--host-ip", w.Addr(20 + i), "--usr-dir", dir, "--profile-file-name", "profile.yaml",
		"--state-dir", w.Path(fmt.Sprintf("swop%d", i)),
	}, append(w.Identity("swop", i), extra...)...)...)
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// runs has the swarm run a RUN_SWARM task on n peers, with arguments for the program, and returns its assignment.
func (w *swarm) runs(op client.Tasks, peers uint32, args, env string) *swarmv1.Assignment {
	w.T.Helper()
	ctx := w.T.Context()
	body := fmt.Sprintf("Entrypoint : %s\nCommand : train.py %s\nWorkingDir : /platform/private\nPrivateContent : /platform/private\nSharedContent : null\nEnvvars : [%s]\n", e2etest.Python, args, env)
	_, err := op.CreateTask(ctx, &swarmv1.CreateTaskRequest{Name: "train", Type: task.RunSwarm, Author: "me", Prereq: task.Root, Outcome: "model"})
	if err == nil {
		_, err = op.EditTask(ctx, "train", 1, body)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	final, err := op.FinaliseTask(ctx, "train", "")
	if err != nil {
		w.T.Fatal(err)
	}
	a, err := op.AssignTask(ctx, &swarmv1.AssignTaskRequest{
		Task: "train", Digest: final.GetDigest(), Taskrunner: task.DefaultTaskrunner, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
		Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: peers, Least: peers}},
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return a
}

// until waits for a phase of an assignment.
func (w *swarm) until(op client.Tasks, id, phase string) (a *swarmv1.Assignment) {
	w.T.Helper()
	w.Until(phase, func() bool {
		var err error
		if a, err = op.GetAssignment(w.T.Context(), id); err != nil {
			w.T.Fatal(err)
		}
		return a.GetPhase() == phase
	})
	return a
}

// TestSWOPThatDoesNotComeBack holds that what a SWOP has started ends in bounded time if it is killed for good: SLs and programs, here of two
// hosts of which one has a SWOP yet, and nothing is left of them.
func TestSWOPThatDoesNotComeBack(t *testing.T) {
	e2etest.NeedPython(t)
	w := newSwarm(t)
	authority := w.authority()
	sn := w.SN(1)
	sn.Sees(apiMarker)
	first, second := w.swop(1), w.swop(2)
	for _, p := range []*e2etest.Proc{first, second} {
		p.Sees("swarm.swop : INFO : Ready for Task Execution!")
	}
	op := client.Tasks{By: client.Operator{Client: w.client(identity.RoleSWCI, nil)}}
	a := w.runs(op, 4, "", "MIN_PEERS: 4, HOLD_END: "+w.Path("never"))
	w.until(op, a.GetId(), "running")
	first.Sees("started an SL for a task node=swop-1-sl-0", "started an SL for a task node=swop-1-sl-1")
	first.Kill()
	lost := w.until(op, a.GetId(), "ending")
	if lost.GetVerdict() != "failed" || !strings.Contains(lost.GetReason(), "swop-1 was lost") {
		t.Errorf("the assignment: %v", lost)
	}
	noted := func(sl int) string { return w.Path(fmt.Sprintf("swop1/tasks/members/%s-1-0/%d.exit", a.GetId(), sl)) }
	for _, what := range []struct {
		name string
		is   func() bool
	}{
		{"end of the first SL of the host without a SWOP", func() bool { _, err := os.Stat(noted(0)); return err == nil }},
		{"end of the second one", func() bool { _, err := os.Stat(noted(1)); return err == nil }},
		{"end of the assignment", func() bool {
			got, err := op.GetAssignment(t.Context(), a.GetId())
			return err == nil && got.GetPhase() == "over"
		}},
	} {
		w.UntilWithin(2*e2etest.Timeout, what.name, what.is)
	}
	for sl := range 2 {
		if code, err := os.ReadFile(noted(sl)); err != nil || string(code) == "0" {
			t.Errorf("SL %d has noted the exit code %s, %v: as if it had succeeded", sl, code, err)
		}
	}
	for _, p := range []*e2etest.Proc{second, sn, authority} {
		p.Stop()
	}
	if err := os.Remove(w.Path("swop1/health.sock")); err != nil { // of the SWOP itself, which had no time to
		t.Error(err)
	}
	w.LeavesNothing()
}

// shut takes the port of a SWOP's file server, which is its default, until the test ends.
func (w *swarm) shut(i int) {
	w.T.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(w.Addr(20+i), strconv.Itoa(int(start.SWOPFSPort))))
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = ln.Close() })
}

// logs holds that operators get what a task prints on two hosts, of each directly or through SNs, as is said.
func (w *swarm) logs(task string, direct map[*e2etest.Proc]bool) {
	w.T.Helper()
	code, out := w.swarmctl("get", "logs", task, "--tail", "2")
	if code != 0 || !strings.Contains(out, "swop-1/") || !strings.Contains(out, "swop-2/") || strings.Contains(out, "through SNs") {
		w.T.Errorf("get logs %s: exit code %d\n%s", task, code, out)
	}
	for p, want := range direct {
		p.Sees("a log is handed out by=spiffe://swarm.learning/swarm/swci assignment=")
		if got := strings.Contains(p.Output(), "follow=false artifacts=false direct=true"); got != want {
			w.T.Errorf("directly: %v, want %v:\n%s", got, want, p.Output())
		}
	}
}

// figures holds that an SN and a SWOP say what their machine has and uses, and that an SL which a task has started says it to nobody.
func (w *swarm) figures(sn, swop, sl string) {
	w.T.Helper()
	for _, name := range []string{sn, swop} {
		var got struct {
			Node    string
			Figures map[string]any
		}
		code, out := w.swarmctl("get", "node", name, "-o", "json")
		if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Node != name {
			w.T.Fatalf("get node %s: exit code %d, %v\n%s", name, code, err, out)
		}
		for _, key := range []string{"cpus", "memory_total_bytes", "memory_available_bytes", "daemon_memory_bytes", "disk_total_bytes"} {
			if n, _ := got.Figures[key].(float64); n <= 0 {
				w.T.Errorf("%s reports %s as %v", name, key, got.Figures[key])
			}
		}
	}
	if code, out := w.swarmctl("get", "node", sl); code != 4 || !strings.Contains(out, sl+" hands out no figures, which go where its log goes: ") {
		w.T.Errorf("get node %s: exit code %d\n%s", sl, code, out)
	}
}

// TestTwoSWOPsTrain holds that one assignment starts a training on two hosts of two SLs each, whose programs have the task's arguments and whose logs come from the hosts themselves, that a
// SWOP that is killed meanwhile takes up what lives, also without the port of its file server, and that nothing is left.
func TestTwoSWOPsTrain(t *testing.T) {
	e2etest.NeedPython(t)
	w := newSwarm(t)
	authority := w.authority()
	sn := w.SN(1)
	sn.Sees(apiMarker)
	first, second := w.swop(1), w.swop(2)
	for _, p := range []*e2etest.Proc{first, second} {
		p.Sees("swarm.swop : INFO : Ready for Task Execution!")
	}
	op := client.Tasks{By: client.Operator{Client: w.client(identity.RoleSWCI, nil)}}
	a := w.runs(op, 4, `--lr 0.1 -u 'a $b' --data=/platform/private/x`, "MIN_PEERS: 4, HOLD_END: "+w.Path("go"))
	first.Sees("ENROLL TO Task : train , opId : "+a.GetId()+" - Begins", "started an SL for a task", "started an SL for a task")
	w.until(op, a.GetId(), "running")
	w.Until("merge", func() bool {
		raw, err := os.ReadFile(w.Metrics(1))
		return err == nil && strings.Contains(string(raw), `"round": 1`)
	})
	w.logs("train", map[*e2etest.Proc]bool{first: true, second: true})
	w.figures("sn-1", "swop-1", "swop-1-sl-0")
	said := fmt.Sprintf("arguments ['--lr', '0.1', '-u', 'a $b', '--data=%s']", w.Path("private/x"))
	if _, out := w.swarmctl("get", "logs", "train", "--tail", "1000"); strings.Count(out, said) != 4 {
		t.Errorf("%s is not what each of the four programs says:\n%s", said, out)
	}
	first.Kill()
	w.shut(1)
	first = w.swop(1)
	first.Sees("this host has no file server, so that logs go through SNs", "Ready for Task Execution!")
	w.logs("train", map[*e2etest.Proc]bool{first: false, second: true})
	if err := os.WriteFile(w.Path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	over := w.until(op, a.GetId(), "over")
	if over.GetVerdict() != "succeeded" || over.GetStatus() != "COMPLETE" || over.GetEpoch() != 1 || over.GetCompletedPeers() != 4 {
		t.Errorf("the assignment: %v", over)
	}
	w.Agree(1, 2, 3, 4)
	for _, p := range []*e2etest.Proc{first, second, sn, authority} {
		p.Stop()
	}
	w.LeavesNothing()
}
