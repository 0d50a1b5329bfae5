package runswarm_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/runswarm"
)

// TestMain lets this binary be swarmd too: an SL that does what its program's name says.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run-sl" {
		os.Exit(fakeSL())
	}
	os.Exit(m.Run())
}

func fakeSL() int {
	options, err := os.ReadFile(strings.TrimPrefix(os.Args[len(os.Args)-1], "--config-file="))
	if err != nil {
		return 9
	}
	if os.Getenv("SWOP_SECRET") != "" || os.Getenv("PATH") == "" {
		return 9
	}
	fmt.Println("SECRET is", os.Getenv("SL_SECRET"), strings.Contains(string(options), "TASK_SECRET=hush"))
	switch {
	case strings.Contains(string(options), "fails.py"):
		fmt.Fprintln(os.Stderr, "boom")
		return 3
	case strings.Contains(string(options), "waits.py"):
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		<-end
	}
	if os.WriteFile(os.Getenv(start.ExitFile), []byte("0"), 0o600) != nil {
		return 9
	}
	return 0
}

// host is one with a profile of two SLs, in directories of its own.
type host struct {
	dir    string
	swarmd string
	python string
}

func newHost(t *testing.T) host {
	t.Helper()
	h := host{dir: t.TempDir()}
	t.Setenv("SWOP_SECRET", "of the owner")
	t.Setenv("SWARM_RUN_DIR", filepath.Join(h.dir, "run"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.swarmd, h.python = filepath.Join(h.dir, "swarmd"), filepath.Join(h.dir, "python3")
	for _, to := range []string{h.swarmd, h.python} {
		copied(t, self, to)
	}
	return h
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil || out.Close() != nil {
		t.Fatal(err)
	}
}

// processes are those of a SWOP that was just started.
func (h host) processes(t *testing.T) *runswarm.Processes {
	t.Helper()
	p := &taskfile.Profile{Env: []taskfile.Var{{Name: "SL_SECRET", Value: "quiet"}}}
	for i := range 2 {
		p.Nodes = append(p.Nodes, taskfile.Node{Index: i, PrivateData: taskfile.Source{Src: h.dir, MountType: "BIND"}})
	}
	return &runswarm.Processes{
		SwarmID: func() string { return "s" },
		Host:    runswarm.Host{Profile: p, Name: "swop-1", Node: start.Node{Host: "127.0.0.1", Identity: "embedded=/none"}, SNs: []string{"127.0.0.1:1"}},
		Dir:     filepath.Join(h.dir, "state"), Swarmd: h.swarmd, Scope: "runswarm-test", Getenv: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler),
	}
}

// job is one that runs a program of a name.
func (h host) job(t *testing.T, name string) work.Job {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("Command : %s\nEntrypoint : %s\nEnvvars :\n- TASK_SECRET : hush\nPrivateContent : /work\nSharedContent : null\nWorkingDir : /work\n", name, h.python)
	return work.Job{
		Label: work.Label{Swarm: "s", Node: "swop-1", Assignment: "7", Epoch: 1, Member: 2},
		Task:  &task.Task{Name: "run", Type: task.RunSwarm, Definition: []byte(text)},
	}
}

// await looks until the only member is as it is wanted.
func await(t *testing.T, p *runswarm.Processes, want func(work.Status) bool) work.Found {
	t.Helper()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for {
		found, err := p.Find(t.Context())
		if err != nil || len(found) != 1 {
			t.Fatalf("found %+v, %v", found, err)
		}
		if want(found[0].Status) {
			return found[0]
		}
		select {
		case <-ticks.C:
		case <-t.Context().Done():
			t.Fatalf("still %+v", found)
		}
	}
}

func exited(s work.Status) bool { return s.State == task.Exited }

// clean removes a member, and holds that nothing is left of it.
func clean(t *testing.T, p *runswarm.Processes, l work.Label) {
	t.Helper()
	var err error
	for range 50 { // another Processes of this test may note the end of its child meanwhile, which no other process would
		if err = p.Clean(t.Context(), l); err == nil {
			break
		}
	}
	if again := p.Clean(t.Context(), l); err != nil || again != nil { // nothing is left to do
		t.Fatal(err, again)
	}
	found, err := p.Find(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	if live, err := registry.List("runswarm-test"); err != nil || len(live) > 0 {
		t.Errorf("still runs: %+v, %v", live, err)
	}
	if left, err := filepath.Glob(filepath.Join(p.Dir, "members", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestARestartedHostFindsItsSLs holds that SLs outlive who started them, are not started twice, and end with their member.
func TestARestartedHostFindsItsSLs(t *testing.T) {
	h := newHost(t)
	first, j := h.processes(t), h.job(t, "waits.py")
	if err := first.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if s, err := first.Start(t.Context(), j); err != nil || s.State != task.Started {
		t.Fatal(s, err)
	}
	before, err := registry.List("runswarm-test")
	if err != nil || len(before) != 2 || before[0].Name != "swop-1-sl-0" || before[1].Name != "swop-1-sl-1" {
		t.Fatalf("%+v, %v", before, err)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", before[0].PID)); err != nil || !strings.Contains(string(env), "SWARM_RUN_DIR="+filepath.Join(h.dir, "run")+"\x00") {
		t.Errorf("it registers elsewhere: %q, %v", env, err)
	}
	second := h.processes(t)
	found := await(t, second, func(s work.Status) bool { return s.State == task.Started })
	if found.Label != j.Label {
		t.Errorf("found %+v, started %+v", found.Label, j.Label)
	}
	if _, err := second.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if after, err := registry.List("runswarm-test"); err != nil || len(after) != 2 || after[0].PID != before[0].PID || after[1].PID != before[1].PID {
		t.Errorf("started again: %+v, then %+v, %v", before, after, err)
	}
	clean(t, second, j.Label)
}

// TestEachMemberHasItsOwnSLs holds that an assignment after another takes none of its SLs for its own, neither when it starts nor when it ends,
// though SLs of one name have one directory for their keys.
func TestEachMemberHasItsOwnSLs(t *testing.T) {
	h := newHost(t)
	p, first := h.processes(t), h.job(t, "waits.py")
	if _, err := p.Start(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	await(t, p, func(s work.Status) bool { return s.State == task.Started })
	second := first
	second.Assignment.ID, second.Label.Assignment = "8", "8"
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Start(soon, second); err == nil || !strings.Contains(err.Error(), "assignment 7 still runs on this host") {
		t.Errorf("while the first one runs: %v", err)
	}
	if err := p.Clean(t.Context(), second.Label); err != nil {
		t.Error(err)
	}
	if live, err := registry.List("runswarm-test"); err != nil || len(live) != 2 {
		t.Errorf("the second one has ended what the first one runs: %+v, %v", live, err)
	}
	began := make(chan error, 1)
	go func() {
		_, err := p.Start(t.Context(), second)
		began <- err
	}()
	if err := p.Clean(t.Context(), first.Label); err != nil {
		t.Error(err)
	}
	if err := <-began; err != nil {
		t.Errorf("once it has ended: %v", err)
	}
	if found := await(t, p, func(s work.Status) bool { return s.State == task.Started }); found.Label != second.Label {
		t.Errorf("runs: %+v", found)
	}
	if err := p.Clean(t.Context(), first.Label); err != nil { // nothing of it is left
		t.Error(err)
	}
	if live, err := registry.List("runswarm-test"); err != nil || len(live) != 2 {
		t.Errorf("what is left of the first one has ended the second: %+v, %v", live, err)
	}
	clean(t, p, second.Label)
}

// TestAMemberIsWhatItsSLsAre holds that it succeeds with the last of its SLs and fails with the first, with what that said.
func TestAMemberIsWhatItsSLsAre(t *testing.T) {
	h := newHost(t)
	p, j := h.processes(t), h.job(t, "works.py")
	if _, err := p.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if s := await(t, p, exited); s.Code != 0 {
		t.Errorf("two SLs that succeed: %+v", s)
	}
	clean(t, p, j.Label)
	j = h.job(t, "fails.py")
	if _, err := p.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if s := await(t, p, exited); s.Code != 3 || !strings.Contains(s.Said, "SECRET is quiet true | boom") {
		t.Errorf("an SL that fails: %+v", s)
	}
	clean(t, p, j.Label)
}

// TestAnSLThatIsGoneWithoutAWordWasKilled holds that nobody waits for it: who started it died before it did.
func TestAnSLThatIsGoneWithoutAWordWasKilled(t *testing.T) {
	h := newHost(t)
	p, j := h.processes(t), h.job(t, "works.py")
	if _, err := p.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	await(t, p, exited)
	notes, err := filepath.Glob(filepath.Join(p.Dir, "members", "*", "1.exit"))
	if err != nil || len(notes) != 1 || os.Remove(notes[0]) != nil {
		t.Fatal(notes, err)
	}
	if s := await(t, h.processes(t), exited); s.Code != 137 {
		t.Errorf("%+v", s)
	}
	begun := filepath.Join(filepath.Dir(notes[0]), "begun")
	if err := os.Remove(begun); err != nil {
		t.Fatal(err)
	}
	await(t, p, func(s work.Status) bool { return s.State == task.Prepared }) // of a start that was cut off
	clean(t, p, j.Label)
}

func TestPrepareFindsWhatIsWrong(t *testing.T) {
	h := newHost(t)
	p := h.processes(t)
	for want, change := range map[string]func(*work.Job){
		"of the type PULL_IMAGE": func(j *work.Job) {
			j.Task.Type, j.Task.Definition = task.PullImage, []byte("OrgAndReg : a\nRepoName : b\nTag : c\nAuth : null\n")
		},
		"task run: ": func(j *work.Job) { j.Task.Definition = []byte("Nonsense : 1\n") },
		"none.py does not exist: put it into the model directory or change Command in the task": func(j *work.Job) {
			j.Task.Definition = []byte(strings.ReplaceAll(string(j.Task.Definition), "works.py", "none.py"))
		},
		"set LD_PRELOAD": func(j *work.Job) {
			j.Task.Definition = []byte(strings.ReplaceAll(string(j.Task.Definition), "TASK_SECRET", "LD_PRELOAD"))
		},
		"python9": func(j *work.Job) {
			j.Task.Definition = []byte(strings.ReplaceAll(string(j.Task.Definition), "python3", "python9"))
		},
	} {
		j := h.job(t, "works.py")
		change(&j)
		if err := p.Prepare(t.Context(), j); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
