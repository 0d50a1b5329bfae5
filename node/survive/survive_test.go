package survive_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/python"
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// site is a swarm of one SN and SLs whose programs run in containers as a user of their own.
type site struct {
	*e2etest.Swarm
	engine *engine.Engine
	sn     *e2etest.Proc
	scope  string
	env    []string // of SLs
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{engine: enginetest.Engine(t), scope: enginetest.Scope(t)}
	enginetest.Clean(t, s.scope)
	s.begin(t)
	return s
}

// newPrivateSite has an engine of its own.
func newPrivateSite(t *testing.T, opts ...enginetest.Option) (*site, *enginetest.PrivateEngine) {
	t.Helper()
	own := enginetest.Private(t, opts...)
	s := &site{engine: own.Engine(), scope: enginetest.Scope(t), env: []string{"DOCKER_HOST=" + own.Host()}}
	s.begin(t)
	return s, own
}

func (s *site) begin(t *testing.T) {
	t.Helper()
	s.Swarm = e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + s.Path("ca")} })
	e2etest.Start(t, "authority", s.Dir, nil, "swarmd", "run-authority", "--dir", s.Path("ca"))
	s.sn = s.SN(1)
	s.sn.Sees("Starting SWARM-API-SERVER")
}

// model makes SL i's model directory: the program, and the package as it is in this tree.
func (s *site) model(i int) string {
	s.T.Helper()
	dir := s.Path(fmt.Sprintf("model%d", i))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	s.CopyProgram(dir)
	source := python.Source()
	for _, name := range []string{"swarm", "swarmlearning"} {
		sub, err := fs.Sub(source, name)
		if err == nil {
			err = os.CopyFS(filepath.Join(dir, name), sub)
		}
		if err != nil {
			s.T.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil { // the program's user is not ours
		s.T.Fatal(err)
	}
	return dir
}

// start runs SL i's daemon, again with the same words if it ran before. program is K=V for the program.
func (s *site) start(i int, program ...string) *e2etest.Proc {
	s.T.Helper()
	args := append([]string{
		"swarmd", "run-sl", "--name", s.node(i), "--host-ip", s.Addr(10 + i), "--sn-ip", s.Addr(1), "--state-dir", s.Path(fmt.Sprintf("sl%d", i)),
		"--bridge-dir", s.Bridge(i), "--model-dir", s.model(i), "--model-program", "train.py", "--sl-platform", "PYT",
		"--ml-runtime", "docker", "--ml-image", enginetest.TestImage, "--ml-user", "4242:4242",
		"-e", fmt.Sprintf("SEED=%d", i), "--ml-e", "SWARM_METRICS_FILE=" + engine.ModelDir + "/metrics",
	}, s.Identity("sl", i)...)
	for _, p := range program {
		args = append(args, "-e", p)
	}
	return e2etest.Start(s.T, s.node(i), s.Dir, append(s.env, "SWARM_SCOPE="+s.scope), args...)
}

func (s *site) node(i int) string { return fmt.Sprintf("sl-%d", i) }

// containers lists those of SL i's programs.
func (s *site) containers(i int) []container.Summary {
	s.T.Helper()
	list, err := s.engine.ContainerList(s.T.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelScope+"="+s.scope), filters.Arg("label", engine.LabelNode+"="+s.node(i)),
		filters.Arg("label", engine.LabelRole+"="+engine.RoleML))})
	if err != nil {
		s.T.Fatal(err)
	}
	return list
}

// agree wants the programs of these SLs to hold the same final model.
func (s *site) agree(sls ...int) e2etest.Event {
	s.T.Helper()
	var first e2etest.Event
	for n, i := range sls {
		b, err := os.ReadFile(filepath.Join(s.model(i), "metrics"))
		if err != nil {
			s.T.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		var e e2etest.Event
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil || e.Event != "end" || e.SHA256 == "" {
			s.T.Fatalf("metrics of %s end with %s, %v", s.node(i), lines[len(lines)-1], err)
		}
		if begun := strings.Count(string(b), `"start"`); begun != 1 {
			s.T.Errorf("the program of %s ran %d times, want once", s.node(i), begun)
		}
		if n == 0 {
			first = e
		} else if e.SHA256 != first.SHA256 || e.Round != first.Round {
			s.T.Errorf("%s ends with %+v, %s with %+v; want the same model", s.node(i), e, s.node(sls[0]), first)
		}
	}
	return first
}

// tidy wants nothing of the bridges of these SLs to be left; enginetest.Clean looks for containers.
func (s *site) tidy(sls ...int) {
	s.T.Helper()
	for _, i := range sls {
		if _, err := os.Stat(s.Bridge(i)); !os.IsNotExist(err) {
			s.T.Errorf("the bridge directory of %s is left: %v", s.node(i), err)
		}
	}
}

// TestDaemonKilledAtEveryStep kills one SL's daemon whenever it has said the next of its lines. Its program never notices more
// than a pause.
func TestDaemonKilledAtEveryStep(t *testing.T) {
	s := newSite(t)
	program := []string{"BATCHES=24", "BATCH_SECONDS=0.05", "CONTRACT=study"}
	other := s.start(2, program...)
	for _, line := range []string{
		"registered with the swarm", "program started", "session opened", "model handed to the program", "session of this node's previous run is adopted",
		"model handed to the program", "model handed to the program", "final model is with the program",
	} {
		p := s.start(1, program...)
		p.Sees(line)
		p.Kill()
		if n := len(s.containers(1)); n > 1 {
			t.Fatalf("after %q: %d containers of one program", line, n)
		}
	}
	last := s.start(1, program...)
	for _, p := range []*e2etest.Proc{last, other} {
		if code := p.Exits(); code != 0 {
			t.Errorf("%s: exit code %d, want 0", p.Name, code)
		}
	}
	if e := s.agree(1, 2); e.Rounds < 5 {
		t.Errorf("got %d rounds, want the training to go on", e.Rounds)
	}
	finished := func() {
		t.Helper()
		again := s.start(1, program...)
		if code := again.Exits(); code != 0 || !strings.Contains(again.Output(), "training is finished already") {
			t.Errorf("started once more: exit code %d", code)
		}
	}
	finished()
	// A node that is started again does not bring back a contract that somebody has deleted.
	deletion := e2etest.Start(t, "swarmctl", s.Dir, nil, "swarmctl", "delete", "contract", "study", "--sn", s.Addr(1)+":30304", "--identity", "embedded="+s.Path("ca"))
	if code := deletion.Exits(); code != 0 {
		t.Fatalf("delete contract: exit code %d", code)
	}
	finished()
	s.tidy(1)
}

// TestProgramEndsWhileTheDaemonIsAway: its end is judged as if it had just come.
func TestProgramEndsWhileTheDaemonIsAway(t *testing.T) {
	s := newSite(t)
	p := s.start(1, "MIN_PEERS=1", "BATCHES=100000", "EXIT_AT=40", "EXIT_CODE=7", "BATCH_SECONDS=0.05")
	p.Sees("model handed to the program")
	p.Kill()
	id := s.containers(1)[0].ID
	// It waits for its daemon at the next merge; ended from outside it can't.
	if err := s.engine.ContainerKill(t.Context(), id, "KILL"); err != nil {
		t.Fatal(err)
	}
	s.Until("end of the program", func() bool {
		c, err := s.engine.ContainerInspect(t.Context(), id)
		return err == nil && !c.State.Running
	})
	p = s.start(1, "MIN_PEERS=1", "BATCHES=100000", "EXIT_AT=40", "EXIT_CODE=7", "BATCH_SECONDS=0.05")
	if code := p.Exits(); code != 137 {
		t.Errorf("exit code %d, want the program's 137", code)
	}
	if out := p.Output(); !strings.Contains(out, "adopted") || !strings.Contains(out, "killed") {
		t.Errorf("it says\n%s", out)
	}
}

// TestContainerThatVanishes: it is reported, not waited for, whether the daemon sees it or not, and training may begin anew.
func TestContainerThatVanishes(t *testing.T) {
	s := newSite(t)
	p := s.start(1, "MIN_PEERS=1", "BATCHES=100000")
	p.Sees("model handed to the program")
	remove := func() {
		if err := s.engine.ContainerRemove(t.Context(), s.containers(1)[0].ID, container.RemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	if code := p.Exits(); code == 0 {
		t.Error("exit code 0 though its container was removed")
	}
	p = s.start(1, "MIN_PEERS=1", "BATCHES=100000", "CONTRACT=second") // nobody holds the model of the first
	p.Sees("model handed to the program")
	p.Kill()
	remove() // while nobody looks
	if err := os.Remove(filepath.Join(s.model(1), "metrics")); err != nil {
		t.Fatal(err)
	}
	p = s.start(1, "MIN_PEERS=1", "CONTRACT=third")
	p.Sees("is gone", "ending the session of this node's previous run")
	if code := p.Exits(); code != 0 {
		t.Errorf("started anew: exit code %d, want 0", code)
	}
	s.agree(1)
	s.tidy(1)
}

// TestContainerWithoutARecord: nobody knows what it does, so it is stopped.
func TestContainerWithoutARecord(t *testing.T) {
	s := newSite(t)
	p := s.start(1, "MIN_PEERS=1", "BATCHES=100000")
	p.Sees("model handed to the program")
	p.Kill()
	// And one that a daemon made, but died before it could start it.
	labels := map[string]string{engine.LabelRole: engine.RoleML, engine.LabelScope: s.scope, engine.LabelNode: s.node(1), engine.LabelIncarnation: "another"}
	_, err := s.engine.ContainerCreate(t.Context(), &container.Config{Image: enginetest.TestImage, Labels: labels}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.Path("sl1", "session.json")); err != nil {
		t.Fatal(err)
	}
	p = s.start(1, "MIN_PEERS=1", "CONTRACT=again")
	p.Sees("state=running", "state=created")
	if code := p.Exits(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if n := strings.Count(p.Output(), "removing a container of this node's previous run"); n != 2 || len(s.containers(1)) != 0 {
		t.Errorf("%d containers were removed, %d are there", n, len(s.containers(1)))
	}
}

// TestStoppedNode ends its program, its session and its membership.
func TestStoppedNode(t *testing.T) {
	s := newSite(t)
	p := s.start(1, "MIN_PEERS=1", "BATCHES=100000")
	p.Sees("model handed to the program", "isolation=\"container, no network\"")
	begun := time.Now()
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	p.Exits()
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	if out := p.Output(); !strings.Contains(out, "left the swarm") {
		t.Errorf("it says\n%s", e2etest.Last(out, 20))
	}
	if _, err := os.Stat(s.Path("sl1", "session.json")); !os.IsNotExist(err) {
		t.Errorf("the record stays: %v", err)
	}
	s.tidy(1)
}

// TestStoppedBeforeItsSwarmIsBack ends the program of a previous run, which nobody would adopt or end.
func TestStoppedBeforeItsSwarmIsBack(t *testing.T) {
	s := newSite(t)
	p := s.start(1, "MIN_PEERS=1", "BATCHES=100000")
	p.Sees("model handed to the program")
	p.Kill()
	s.sn.Kill()
	p = s.start(1, "MIN_PEERS=1", "BATCHES=100000")
	p.Sees("waiting for the swarm")
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	p.Exits()
	if left := s.containers(1); len(left) != 0 {
		t.Errorf("its program runs on: %+v", left)
	}
	s.SN(1).Sees("Starting SWARM-API-SERVER")
	if err := os.Remove(filepath.Join(s.model(1), "metrics")); err != nil {
		t.Fatal(err)
	}
	p = s.start(1, "MIN_PEERS=1", "CONTRACT=again")
	if code := p.Exits(); code != 0 {
		t.Errorf("started anew: exit code %d, want 0", code)
	}
	s.agree(1)
}

// TestEngineRestartsWithLiveRestore: nobody notices, not even when the daemon dies while the engine is away.
func TestEngineRestartsWithLiveRestore(t *testing.T) {
	s, own := newPrivateSite(t, enginetest.LiveRestore)
	program := []string{"MIN_PEERS=1", "BATCHES=60", "BATCH_SECONDS=0.1"}
	p := s.start(1, program...)
	p.Sees("model handed to the program")
	own.Restart()
	own.Stop()
	p.Kill()
	own.Start()
	p = s.start(1, program...)
	p.Sees("session of this node's previous run is adopted")
	if code := p.Exits(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if e := s.agree(1); e.Rounds < 20 {
		t.Errorf("got %d rounds, want all", e.Rounds)
	}
	if left := enginetest.Left(t, s.engine, s.scope); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestEngineRestartsAndTakesTheProgramAlong: that is why the session fails, and it may be started anew.
func TestEngineRestartsAndTakesTheProgramAlong(t *testing.T) {
	s, own := newPrivateSite(t)
	p := s.start(1, "MIN_PEERS=1", "BATCHES=100000")
	p.Sees("model handed to the program")
	own.Restart()
	if code := p.Exits(); code == 0 {
		t.Error("exit code 0 though its program was lost")
	}
	if out := p.Output(); !strings.Contains(out, "live-restore") {
		t.Errorf("it says\n%s", e2etest.Last(out, 20))
	}
	status := e2etest.Start(t, "status", s.Dir, nil, append([]string{"swarmctl", "get", "contract", "status", "e2e", "--sn", s.Addr(1) + ":30304"}, s.Identity("swci", 1)...)...)
	if status.Exits(); !strings.Contains(status.Output(), "live-restore") {
		t.Errorf("the contract's status does not say why the session failed:\n%s", status.Output())
	}
	if err := os.Remove(filepath.Join(s.model(1), "metrics")); err != nil {
		t.Fatal(err)
	}
	p = s.start(1, "MIN_PEERS=1", "CONTRACT=again")
	if code := p.Exits(); code != 0 {
		t.Errorf("started anew: exit code %d, want 0", code)
	}
	s.agree(1)
}
