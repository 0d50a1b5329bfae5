package runjob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/runjob"
)

const scope = "runjob-test"

// TestMain lets this binary be swarmd too, which keeps members' processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == runjob.Command {
		os.Exit(runjob.Keep(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// host has processes in directories of its own.
type host struct{ dir, swarmd string }

func newHost(t *testing.T) host {
	t.Helper()
	h := host{dir: t.TempDir()}
	t.Setenv("SWOP_SECRET", "of the owner")
	t.Setenv("SWARM_RUN_DIR", filepath.Join(h.dir, "run"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.swarmd = filepath.Join(h.dir, "swarmd")
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(h.swarmd, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil || out.Close() != nil {
		t.Fatal(err)
	}
	return h
}

// processes are those of a SWOP that was just started.
func (h host) processes() *runjob.Processes {
	return &runjob.Processes{
		SwarmID: func() string { return "s" }, Node: "swop-1", Dir: filepath.Join(h.dir, "jobs"), Swarmd: h.swarmd, Scope: scope, Getenv: func(string) string { return "" },
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }, Paths: hostpaths.NewHere(), Log: slog.New(slog.DiscardHandler),
	}
}

// one is the only member of a job, whose source is files by name.
func one(files map[string]string, lines ...string) work.Job {
	body := "name: x\n" + strings.Join(lines, "\n") + "\n"
	if len(files) > 0 {
		body += "--- source\n"
	}
	for name, text := range files { // tests have one, or care for the order
		body += fmt.Sprintf("755 text %d %s\n%s", len(text), name, text)
	}
	return work.Job{
		Label: work.Label{Swarm: "s", Node: "swop-1", Assignment: "7", Epoch: 1}, Group: "node", Peers: 1,
		Task:  &task.Task{Name: "x.1", Definition: []byte(body)},
		World: []task.Site{{Node: "swop-1", Group: "node", Address: "127.0.0.1"}},
	}
}

func python(lines ...string) map[string]string {
	return map[string]string{"train.py": strings.Join(lines, "\n") + "\n"}
}

func started(t *testing.T, p *runjob.Processes, j work.Job) {
	t.Helper()
	if err := p.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if found := await(t, p, func(work.Status) bool { return true }); found.State != task.Prepared || found.Label != j.Label {
		t.Fatalf("prepared: %+v", found)
	}
	if s, err := p.Start(t.Context(), j); err != nil || s.State != task.Started {
		t.Fatal(s, err)
	}
	t.Cleanup(func() { clean(t, p, j.Label) })
}

// await looks until the only member is as it is wanted.
func await(t *testing.T, p *runjob.Processes, want func(work.Status) bool) work.Found {
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
func clean(t *testing.T, p *runjob.Processes, l work.Label) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for range 2 { // the second time nothing is left to do
		if err := p.Clean(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := p.Find(ctx); err != nil || len(found) > 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	if live, err := registry.List(scope); err != nil || len(live) > 0 {
		t.Errorf("still runs: %+v, %v", live, err)
	}
	if left, err := os.ReadDir(p.Dir); err != nil && !errors.Is(err, os.ErrNotExist) || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() != "lease" && e.Name() != "python" }) {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestLinesBesideAnSLAreOfTheirRanks: members are named by their ranks, of which the SL has the first.
func TestLinesBesideAnSLAreOfTheirRanks(t *testing.T) {
	p := newHost(t).processes()
	j := one(map[string]string{"run": "#!/bin/sh\necho rank $RANK\n"}, "framework: pytorch", "network: host", "command: ./run", "beside: {sl: sl-1, address: 127.0.0.1, port: 29400}")
	started(t, p, j)
	await(t, p, exited)
	var all []string
	if err := p.Print(t.Context(), j.Label, 9, false, func(from, line string) error {
		all = append(all, from+": "+line)
		return nil
	}); err != nil || !slices.Equal(all, []string{"node-1: rank 1"}) {
		t.Errorf("printed %q, %v", all, err)
	}
}

// printed is what a member has printed.
func printed(t *testing.T, p *runjob.Processes, l work.Label) (all []string) {
	t.Helper()
	if err := p.Print(t.Context(), l, 100, false, func(from, line string) error {
		if from != "node-0" {
			t.Errorf("from %s: %s", from, line)
		}
		all = append(all, line)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAMemberRuns(t *testing.T) {
	h := newHost(t)
	p := h.processes()
	j := one(python(
		"import json, os, sys",
		"nodes = json.load(open(os.environ['CLUSTER_NODES_METADATA_FILE']))",
		"print(sys.argv[1:], nodes[0]['IPAddress'], os.environ['SWARM_RUN_ID'], os.environ['COLOUR'], 'SWOP_SECRET' in os.environ, os.path.exists('train.py'))",
	), "command: python3 -u train.py --rank ${SWARM_NODE_RANK}", "env: {COLOUR: blue}")
	started(t, p, j)
	if s := await(t, p, exited); s.Code != 0 || s.Said != "" {
		t.Errorf("%+v", s)
	}
	if got, want := strings.Join(printed(t, p, j.Label), "\n"), "['--rank', '0'] 127.0.0.1 x-7 blue False True"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}

// TestWhatIsFollowedMayStartLater holds that nothing is missed of what a member prints that was only prepared when somebody began to follow it, and
// that following ends with it.
func TestWhatIsFollowedMayStartLater(t *testing.T) {
	p := newHost(t).processes()
	j := one(python("print('late')"), "command: train.py")
	if err := p.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clean(t, p, j.Label) })
	var got []string
	followed := make(chan error, 1)
	go func() {
		followed <- p.Print(t.Context(), j.Label, 10, true, func(_, line string) error {
			got = append(got, line)
			return nil
		})
	}()
	if _, err := p.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if err := <-followed; err != nil || strings.Join(got, "\n") != "late" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestWhatAMemberPrintsIsBounded holds that a program that prints without end fills no disk, and that its last lines are there.
func TestWhatAMemberPrintsIsBounded(t *testing.T) {
	p := newHost(t).processes()
	j := one(python("import sys", "for i in range(8_000): sys.stdout.write(''.join('%099d\\n' % (100 * i + k) for k in range(100)))", "sys.exit('boom')"), "command: train.py")
	started(t, p, j)
	if s := await(t, p, exited); s.Code != 1 || !strings.HasSuffix(s.Said, "boom") {
		t.Errorf("%+v", s)
	}
	sum := int64(0)
	for _, name := range []string{"output.log", "output.log.1"} {
		info, err := os.Stat(filepath.Join(p.Dir, "7-1-0", name))
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	if sum > 60<<20 || sum < 30<<20 {
		t.Errorf("%d bytes are kept", sum)
	}
	if lines := printed(t, p, j.Label); len(lines) != 100 || !strings.HasSuffix(lines[0], "0799901") || lines[99] != "boom" {
		t.Errorf("the last lines are %q", lines)
	}
}

func TestHowAMemberFails(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		code  int32
		said  string
	}{
		"with a code": {[]string{"import sys", "print('almost')", "sys.exit('boom')"}, 1, "almost | boom"},
		"by a signal": {[]string{"import os, signal", "os.kill(os.getpid(), signal.SIGSEGV)"}, 139, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newHost(t).processes()
			started(t, p, one(python(tt.lines...), "command: train.py"))
			if s := await(t, p, exited); s.Code != tt.code || s.Said != tt.said {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestARestartedHostFindsItsMember holds that a member outlives who started it, is not started twice, is asked to end and has its grace.
func TestARestartedHostFindsItsMember(t *testing.T) {
	h := newHost(t)
	said := filepath.Join(h.dir, "said")
	j := one(python(
		"import os, signal, sys",
		"def end(*_):",
		"    open("+strconv.Quote(said)+", 'a').write('ended')",
		"    sys.exit(0)",
		"signal.signal(signal.SIGTERM, end)",
		"print('up', os.getpid())",
		"while True: signal.pause()",
	), "command: train.py")
	started(t, h.processes(), j)
	second := h.processes()
	await(t, second, func(s work.Status) bool { return s.State == task.Ready && len(printed(t, second, j.Label)) > 0 })
	if _, err := second.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if live, err := registry.List(scope); err != nil || len(live) != 1 || live[0].Name != "job x, group node, rank 0" {
		t.Errorf("keepers: %+v, %v", live, err)
	} else if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", live[0].PID)); err != nil || !strings.Contains(string(env), "SWARM_RUN_DIR="+os.Getenv("SWARM_RUN_DIR")+"\x00") {
		t.Errorf("it registers elsewhere: %q, %v", env, err)
	}
	if lines := printed(t, second, j.Label); len(lines) != 1 {
		t.Errorf("it was started again: %q", lines)
	}
	clean(t, second, j.Label)
	if raw, err := os.ReadFile(said); err != nil || string(raw) != "ended" {
		t.Errorf("it was not asked to end: %q, %v", raw, err)
	}
}

// TestNothingIsLeft holds that processes which a program has put out of its own group and session go with it: with its end, when it is ended and
// does not want to, and when the keeper was killed.
func TestNothingIsLeft(t *testing.T) {
	const child = "child = subprocess.Popen(['sleep', '1000'], start_new_session=True)"
	for name, tt := range map[string]struct {
		lines []string
		end   func(t *testing.T, h host, p *runjob.Processes, l work.Label)
	}{
		"it ends": {[]string{"print(child.pid)"}, func(t *testing.T, _ host, p *runjob.Processes, _ work.Label) {
			t.Helper()
			await(t, p, exited)
		}},
		"it is ended": {[]string{"signal.signal(signal.SIGTERM, signal.SIG_IGN)", "print(child.pid)", "signal.pause()", "signal.pause()"}, func(t *testing.T, _ host, p *runjob.Processes, l work.Label) {
			t.Helper()
			clean(t, p, l)
		}},
		"it is ended, and not waited for": {[]string{"signal.signal(signal.SIGTERM, signal.SIG_IGN)", "print(child.pid)", "while True: signal.pause()"}, func(t *testing.T, _ host, p *runjob.Processes, l work.Label) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // as a SWOP's that is stopped itself, after its own time
			if err := p.Clean(ctx, l); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			await(t, p, exited)
		}},
		"its keeper is killed": {[]string{"print(child.pid)", "signal.pause()"}, func(t *testing.T, _ host, p *runjob.Processes, l work.Label) {
			t.Helper()
			live, err := registry.List(scope)
			if err != nil || len(live) != 1 {
				t.Fatal(live, err)
			}
			if err := syscall.Kill(live[0].PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if s := await(t, p, exited); s.Code != 137 {
				t.Errorf("%+v", s)
			}
			clean(t, p, l)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			p := h.processes()
			j := one(python(append([]string{"import signal, subprocess", child}, tt.lines...)...), "command: train.py", "grace: 1s")
			started(t, p, j)
			var lines []string
			await(t, p, func(work.Status) bool {
				lines = printed(t, p, j.Label)
				return len(lines) > 0
			})
			pid, err := strconv.Atoi(lines[0])
			if err != nil {
				t.Fatal(lines, err)
			}
			tt.end(t, h, p, j.Label)
			if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.HasPrefix(string(raw), "sleep") {
				t.Errorf("process %d is left", pid)
			}
		})
	}
}

// TestReadiness holds how a member is asked, and that nothing but its answer makes it ready.
func TestReadiness(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of tcp
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	flag := filepath.Join(h.dir, "flag")
	for name, tt := range map[string]struct {
		ready string
		make  func() error
	}{
		"port": {fmt.Sprintf("{port: %d, period: 1s}", port), func() error {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}},
		"command": {"{command: train.py " + flag + ", period: 1s}", func() error { return os.WriteFile(flag, nil, 0o600) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := h.processes()
			j := one(python("import os, signal, sys", "if len(sys.argv) > 1: sys.exit(not os.path.exists(sys.argv[1]))", "signal.pause()"), "command: train.py", "ready: "+tt.ready)
			started(t, p, j)
			if s := await(t, p, func(work.Status) bool { return true }); s.State != task.Started {
				t.Errorf("it is %+v, and nothing is there", s)
			}
			if err := tt.make(); err != nil {
				t.Fatal(err)
			}
			await(t, p, func(s work.Status) bool { return s.State == task.Ready })
		})
	}
}

// TestAQuestionLeavesNothing holds that what a readiness command has started ends with it.
func TestAQuestionLeavesNothing(t *testing.T) {
	h := newHost(t)
	file := filepath.Join(h.dir, "pid")
	p := h.processes()
	started(t, p, one(python("import signal, subprocess, sys",
		"if len(sys.argv) > 1:",
		"    child = subprocess.Popen(['sleep', '1000'], start_new_session=True)",
		"    open(sys.argv[1], 'w').write(str(child.pid))",
		"    sys.exit(0)",
		"signal.pause()"), "command: train.py", "ready: {command: train.py "+file+", period: 1s, timeout: 20s}"))
	await(t, p, func(s work.Status) bool { return s.State == task.Ready })
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile("/proc/" + string(pid) + "/cmdline"); err == nil && strings.HasPrefix(string(raw), "sleep") {
		t.Errorf("process %s is left", pid)
	}
}

// TestJobsThatAHostCantRun holds that what is wrong is reported before anything runs, in one line with a remedy.
func TestJobsThatAHostCantRun(t *testing.T) {
	for _, tt := range []struct {
		files map[string]string
		lines []string
		want  string
	}{
		{nil, []string{"image: i", "network: host", "command: train.py"}, "runs jobs as processes: leave image out"},
		{nil, []string{"command: rm -rf /"}, `it runs "rm", and a process runs Python and executable files`},
		{nil, []string{"command: python3 /etc/x.py"}, "and a process runs files of the job's source, modules (-m NAME) and texts (-c TEXT) alone"},
		{nil, []string{"command: python3 -c"}, "and a process runs files of the job's source, modules (-m NAME) and texts (-c TEXT) alone"},
		{nil, []string{"command: python3"}, "and a process runs files of the job's source, modules (-m NAME) and texts (-c TEXT) alone"},
		{nil, []string{"command: train.py"}, "and a process runs files of the job's source, modules (-m NAME) and texts (-c TEXT) alone"},
		{python("pass"), []string{"command: train.py", "env: {LD_PRELOAD: /x.so}"}, `its env sets "LD_PRELOAD"`},
		{python("pass"), []string{"command: train.py", "env: {CUDA_VISIBLE_DEVICES: 0}"}, "which GPUs of this host"},
		{python("pass"), []string{"command: train.py", "ready: {command: test -f /tmp/up}"}, `its ready.command: it runs "test"`},
		{python("pass"), []string{"command: train.py", "replicas: 2"}, "were not placed in the order"},
	} {
		p := newHost(t).processes()
		j := one(tt.files, tt.lines...)
		if err := p.Prepare(t.Context(), j); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", tt.lines, err, tt.want)
		}
		clean(t, p, j.Label)
	}
}

// TestAMemberEndsWithItsLease holds that a keeper ends what it keeps when nobody prolongs its lease, with words, and not before: whatever has become
// of who started it.
func TestAMemberEndsWithItsLease(t *testing.T) {
	p := newHost(t).processes()
	if err := p.Lease(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(p.Dir, ".new-x") // of one that was killed while it wrote the lease
	if long := time.Now().Add(-time.Hour); errors.Join(os.WriteFile(killed, nil, 0o600), os.Chtimes(killed, long, long)) != nil {
		t.Fatal("can't write", killed)
	}
	j := one(python("import signal", "print('up')", "signal.pause()"), "command: train.py")
	started(t, p, j)
	await(t, p, func(s work.Status) bool { return s.State == task.Ready && len(printed(t, p, j.Label)) > 0 })
	if err := p.Lease(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if s := await(t, p, exited); s.Code != 143 || !strings.Contains(s.Said, "no leader of the swarm answered its host for 1m0s") {
		t.Errorf("%+v", s)
	}
}

// TestWhatIsDamagedIsEnded holds that a member of which its host can't read what it wrote ends, and hides no other.
func TestWhatIsDamagedIsEnded(t *testing.T) {
	h := newHost(t)
	p := h.processes()
	started(t, p, one(python("import signal", "signal.pause()"), "command: train.py"))
	if err := os.WriteFile(filepath.Join(p.Dir, "7-1-0", "order.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := await(t, h.processes(), exited); s.Code == 0 || !strings.Contains(s.Text, "damaged") {
		t.Errorf("%+v", s)
	}
}

// TestMembersOfALocalSwarm: the keeper and its program have the mark of their swarm, by which what a killed one has left is found.
func TestMembersOfALocalSwarm(t *testing.T) {
	h := newHost(t)
	t.Setenv("SWARM_LOCAL_ID", h.dir)
	p := h.processes()
	j := one(python("import os, time", "print(os.environ['SWARM_LOCAL_ID'], flush=True)", "time.sleep(1000)"), "command: train.py", "grace: 1s")
	started(t, p, j)
	live, err := registry.List(scope)
	if err != nil || len(live) != 1 {
		t.Fatalf("%+v, %v", live, err)
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", live[0].PID))
	if err != nil || !slices.Contains(strings.Split(string(raw), "\x00"), "SWARM_LOCAL_ID="+h.dir) {
		t.Errorf("the keeper's environment: %q, %v", raw, err)
	}
	var said []string
	for len(said) == 0 {
		if err := p.Print(t.Context(), j.Label, 10, false, func(_, line string) error {
			said = append(said, line)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if said[0] != h.dir {
		t.Errorf("the program has %q", said)
	}
}
