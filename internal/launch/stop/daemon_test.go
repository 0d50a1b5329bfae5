package stop_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// A stopped SL leaves the swarm: the other goes on at once, and nobody is blamed. The daemons, the programs and swarmctl are real.
func TestSwarmOfProcessesIsStopped(t *testing.T) {
	e2etest.NeedPython(t)
	var w *e2etest.Swarm
	w = e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + w.Path("ca")} })
	env := func(scope string) []string {
		return []string{"SWARM_RUN_DIR=" + w.Path("run"), "SWARM_SCOPE=" + scope, "XDG_STATE_HOME=" + w.Path("state")}
	}
	e2etest.Start(t, "authority", w.Dir, nil, "swarmd", "run-authority", "--dir", w.Path("ca"))
	sn := e2etest.Start(t, "sn-1", w.Dir, env("one"), append([]string{
		"swarmd", "run-sn", "--name", "sn-1", "--host-ip", w.Addr(1), "--sentinel-ip", w.Addr(1), "--state-dir", w.Path("sn1"), "--found-at-once",
	}, w.Identity("sn", 1)...)...)
	first := e2etest.Start(t, "sl-1", w.Dir, env("one"), w.SLArgs(1, "MIN_PEERS=1", "BATCHES=100000", "--sn-ip="+w.Addr(1))...)
	second := e2etest.Start(t, "sl-2", w.Dir, env("two"), w.SLArgs(2, "MIN_PEERS=1", "BATCHES=100000", "--sn-ip="+w.Addr(1))...)

	tool := func(scope string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), e2etest.BinDir+"/swarmctl", args...)
		cmd.Dir, cmd.Env = w.Dir, append([]string{"PATH=/usr/bin:/bin", "HOME=" + w.Dir}, env(scope)...)
		out, err := cmd.Output()
		return string(out), err
	}
	ask := func(into any, args ...string) error {
		out, err := tool("one", append(args, "-o", "json", "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"))...)
		if e := json.Unmarshal([]byte(out), into); e != nil {
			return fmt.Errorf("%w: %w", e, err)
		}
		return err
	}
	var status struct {
		Committed struct {
			Round        int
			Participants []string
		}
		Sessions []struct {
			Node, State string
			EndReason   string `json:"end_reason"`
		}
	}
	together := func(want string) func() bool {
		return func() bool {
			err := ask(&status, "get", "contract", "status", "e2e")
			slices.Sort(status.Committed.Participants) // they are in the order of their sessions' opening
			return err == nil && strings.Join(status.Committed.Participants, " ") == want
		}
	}
	w.Until("both train", together("sl-1 sl-2"))

	out, err := tool("one", "stop", "--sl")
	want := fmt.Sprintf("Stopping SL sl-1 (process %d) … stopped\n", first.Cmd.Process.Pid)
	if err != nil || out != want {
		t.Fatalf("stop --sl: %q, %v, want %q", out, err, want)
	}
	first.Exits()
	w.Until("the other goes on alone", together("sl-2"))
	for _, s := range status.Sessions {
		if (s.State == "ended") != (s.Node == "sl-1") || s.Node == "sl-1" && !strings.Contains(s.EndReason, "stopped") {
			t.Errorf("session of %s: %s %q", s.Node, s.State, s.EndReason)
		}
	}
	var nodes struct {
		Nodes []struct {
			Name       string
			Live       bool
			LeftReason string `json:"left_reason"`
		}
	}
	if err := ask(&nodes, "list", "nodes"); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Nodes {
		if (n.LeftReason != "") != (n.Name == "sl-1") || n.Live == (n.Name == "sl-1") {
			t.Errorf("node %+v", n)
		}
	}
	var health struct{ Healthy bool }
	if err := ask(&health, "get", "health"); err != nil || !health.Healthy {
		t.Errorf("health without sl-1: %+v, %v", health, err)
	}

	if out, err := tool("two", "stop"); err != nil || !strings.Contains(out, "Stopping SL sl-2 (process ") {
		t.Errorf("stop of the other scope: %q, %v", out, err)
	}
	if out, err := tool("one", "stop"); err != nil || !strings.HasPrefix(out, "Stopping SN sn-1 (process ") {
		t.Errorf("stop of the rest: %q, %v", out, err)
	}
	second.Exits()
	sn.Exits()
	if out, err := tool("one", "stop"); err != nil || out != "No running components found\n" {
		t.Errorf("again: %q, %v", out, err)
	}
}
