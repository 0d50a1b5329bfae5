package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestCostOfAssignmentsForMinutes prints how long it takes from ASSIGN to the first call of an executor, as a multiple of one commit on the same
// swarm of three SNs, and how much memory a SWOP has after that. How quick it is wanted of none.
func TestCostOfAssignmentsForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("compares and judges no times: SWARM_TEST_LONG=1 or make test-long")
	}
	w := newSwarm(t)
	w.up()
	usr := w.Path("usr")
	if err := os.Mkdir(usr, 0o700); err != nil {
		t.Fatal(err)
	}
	profile := fmt.Sprintf("groupname: g\ntaskrunner: %s\npolicyuri: null\nnetwork: none\nresourcemgr:\napls:\napisrv: {locator: {host: %s, port: null, service: null}}\nenvvars: null\nnodes:\n"+
		"  - slnodedef: {idx: 0, identity: null, slhostname: null, usrhostname: null, privatedata: null, slenvvars: null, usrenvvars: null}\n", task.DefaultTaskrunner, w.Addr(1))
	if err := os.WriteFile(usr+"/profile", []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	host := e2etest.Start(t, "swop-1", w.Dir, nil, append([]string{
		"swarmd", "run-swop", "--name", "swop-1", "--host-ip", w.Addr(21), "--usr-dir", usr, "--profile-file-name", "profile", "--state-dir", w.Path("swop1"),
	}, w.Identity("swop", 1)...)...)
	host.Sees("Ready for Task Execution!")
	op := client.Tasks{By: client.Operator{Client: w.client(identity.RoleSWCI, nil)}}
	// Nobody answers there: the task ends as soon as it was begun.
	digest := w.finalised(op, &swarmv1.CreateTaskRequest{Name: "pull", Type: task.PullImage, Author: "me", Prereq: task.Root, Outcome: "x:1"},
		"OrgAndReg : 127.0.0.1:1/none\nRepoName : none\nTag : 1\nAuth : null\n")
	var commits, calls []float64
	for i := range 25 {
		begun := time.Now()
		if _, err := op.CreateTaskrunner(t.Context(), fmt.Sprintf("tr-%d", i)); err != nil {
			t.Fatal(err)
		}
		commits, begun = append(commits, time.Since(begun).Seconds()), time.Now()
		a, err := op.AssignTask(t.Context(), &swarmv1.AssignTaskRequest{
			Task: "pull", Digest: digest, Taskrunner: task.DefaultTaskrunner, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
			Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: 1, Least: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		host.Sees("opId : " + a.GetId() + " - Begins")
		calls = append(calls, time.Since(begun).Seconds())
		if over := w.until(op, a.GetId(), "over"); over.GetVerdict() != string(task.Failed) {
			t.Fatalf("the assignment: %v", over)
		}
	}
	commit, call := median(commits), median(calls)
	t.Logf("commit %.1f ms, ASSIGN to the first call %.1f ms: commit times %.1f", 1e3*commit, 1e3*call, call/commit)
	anonymous := residentAnonymous(t, host)
	if t.Logf("the SWOP has %.1f MiB of anonymous memory", anonymous); anonymous > 60 {
		t.Errorf("a SWOP may have 60 MiB")
	}
}

// finalised makes a task, and returns its digest.
func (w *swarm) finalised(op client.Tasks, x *swarmv1.CreateTaskRequest, body string) string {
	w.T.Helper()
	_, err := op.CreateTask(w.T.Context(), x)
	if err == nil {
		_, err = op.EditTask(w.T.Context(), x.GetName(), 1, body)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	final, err := op.FinaliseTask(w.T.Context(), x.GetName(), "")
	if err != nil {
		w.T.Fatal(err)
	}
	return final.GetDigest()
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// residentAnonymous is the memory of a process that is no file's, in MiB.
func residentAnonymous(t *testing.T, p *e2etest.Proc) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "RssAnon: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	t.Fatalf("no RssAnon:\n%s", raw)
	return 0
}

// TestAPartThatIsCutOffIsNoSuccess: an SL of a task that somebody stops before its program has ended, such as a container engine that is
// restarted, exits as one that failed: its host judges by that. Any other SL that is stopped has done what it was asked.
func TestAPartThatIsCutOffIsNoSuccess(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	ends := func(when, sees string, i, want int, more ...string) {
		sl := w.attach(i, more...)
		sl.Sees(sees)
		sl.Signal(syscall.SIGTERM)
		if code := sl.Exits(); code != want {
			t.Errorf("%s, stopped with %q: exit code %d, want %d", when, more, code, want)
		}
	}
	part := []string{"--part", "host/7/1/0"}
	ends("while it waits for its program", registered, 1, 1, part...)
	ends("while it waits for its program", registered, 2, 0)
	for _, sn := range sns {
		sn.Kill()
	}
	ends("while it waits for the swarm", "waiting for the swarm", 3, 1, part...)
	ends("while it waits for the swarm", "waiting for the swarm", 4, 0)
}
