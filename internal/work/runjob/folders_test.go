package runjob_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/runjob"
)

// TestFoldersOfTheHost: a member has the folders that its host's owner has under the names of its volumes, and writes only to those that it lets members write to.
func TestFoldersOfTheHost(t *testing.T) {
	l := newLab(t)
	data, out := filepath.Join(l.dir, "data"), filepath.Join(l.dir, "out")
	if err := errors.Join(os.Mkdir(data, 0o755), os.Mkdir(out, 0o755), os.WriteFile(filepath.Join(data, "x"), []byte("of the host"), 0o644)); err != nil {
		t.Fatal(err)
	}
	jobs := l.jobs(1, python(
		"print('read', open('/mnt/data/x').read())",
		"try: open('/mnt/data/y', 'w')",
		"except OSError as e: print('not written:', e.strerror)",
		"open('/mnt/out/y', 'w').write('of the member')",
	), "image: "+enginetest.TestImage, "volumes: ['data:/mnt/data', 'out:/mnt/out:rw']", "command: train.py")
	c := l.containers()
	if err := c.Prepare(t.Context(), jobs[0]); err == nil || !strings.Contains(err.Error(), "it asks for volume data, which this host's policy was not asked about") {
		t.Errorf("what was not given: %v", err)
	}
	jobs[0].Grant.Folders = map[string]string{"data": data, "out": filepath.Join(l.dir, "link")}
	if err := os.Symlink(out, filepath.Join(l.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(t.Context(), jobs[0]); err == nil || !strings.Contains(err.Error(), "the folder of volume out is not where it was") || strings.Contains(err.Error(), l.dir) {
		t.Errorf("a folder that was exchanged: %v", err)
	}
	jobs[0].Grant.Folders["out"] = out
	l.start(c, jobs)
	if f := l.until(c, 1, task.Exited)[0]; f.Code != 0 {
		t.Errorf("%+v", f)
	}
	if got, want := l.lines(c, jobs[0]), "read of the host\nnot written: Read-only file system"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	l.clean(c, jobs)
	if raw, err := os.ReadFile(filepath.Join(out, "y")); string(raw) != "of the member" {
		t.Errorf("what it wrote: %q, %v", raw, err)
	}

	c.Paths = away{}
	err := c.Prepare(t.Context(), jobs[0])
	if passing, ok := errors.AsType[*work.Passing](err); !ok || strings.Contains(passing.Words, "/srv") {
		t.Errorf("a folder that does not answer: %v", err)
	}
}

// away is a host whose folders do not answer now.
type away struct{}

func (away) Resolve(context.Context, []string) (map[string]hostpaths.Lead, error) {
	return nil, errors.New("look at path /srv/x: no answer within 10s")
}

// withRuns is a member whose run has a folder in one of its host's.
func withRuns(j work.Job, dir string) work.Job {
	j.Grant.Folders = map[string]string{"runs": dir}
	return j
}

const keeps = "import os\nat = os.environ['SWARM_WORK_DIR'] + '/epochs'\nopen(at, 'a').write(os.environ['SWARM_EPOCH'])\nprint(at, open(at).read())"

// TestAProcessHasItsRunsFolder, as the members of the next epoch have.
func TestAProcessHasItsRunsFolder(t *testing.T) {
	h := newHost(t)
	p, dir := h.processes(), t.TempDir()
	j := one(python(keeps), "work_dir: runs", "command: train.py")
	if err := p.Prepare(t.Context(), j); err == nil || !strings.Contains(err.Error(), "asks for volume runs as its work_dir, which this host's policy was not asked about") {
		t.Errorf("what was not given: %v", err)
	}
	for epoch, want := range []string{"/x-7/epochs 0", "/x-7/epochs 01"} {
		j.Epoch = uint32(epoch) + 1
		j = withRuns(j, dir)
		started(t, p, j)
		if f := await(t, p, exited); f.Code != 0 {
			t.Errorf("%+v", f)
		}
		if got := printed(t, p, j.Label); len(got) != 1 || got[0] != dir+want {
			t.Errorf("printed %q, want %q", got, dir+want)
		}
		clean(t, p, j.Label)
	}
	if _, err := os.Stat(filepath.Join(dir, "x-7", "epochs")); err != nil {
		t.Error(err) // it stays for whoever has started the job
	}
}

// TestAStopFileIsSeen while a member runs, by its host and by one that was restarted; a file that is not in the folder of the run is none.
func TestAStopFileIsSeen(t *testing.T) {
	h := newHost(t)
	p, dir := h.processes(), t.TempDir()
	j := withRuns(one(python("import time", "time.sleep(3600)"), "work_dir: runs", "command: train.py", "grace: 1s"), dir)
	if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	started(t, p, j)
	if f := await(t, p, func(s work.Status) bool { return s.State == task.Ready }); f.Asks != "" {
		t.Errorf("before there is one: %+v", f)
	}
	if err := os.Symlink("/none", filepath.Join(dir, "x-7", "stop")); err != nil { // whatever it is
		t.Fatal(err)
	}
	for _, p := range []*runjob.Processes{p, h.processes()} {
		if f := await(t, p, func(s work.Status) bool { return s.Asks != "" }); f.Asks != task.AskStop || f.State != task.Ready && f.State != task.Started {
			t.Errorf("%+v", f)
		}
	}
	clean(t, p, j.Label)
}

// TestContainersHaveTheirRunsFolder and no other one, also in the next epoch; and their host sees a stop file in it.
func TestContainersHaveTheirRunsFolder(t *testing.T) {
	l := newLab(t)
	c, dir := l.containers(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x-6"), 0o700); err != nil {
		t.Fatal(err)
	}
	epoch := func(n uint32, source map[string]string) []work.Job {
		jobs := l.jobs(1, source, "image: "+enginetest.TestImage, "work_dir: runs", "command: train.py", "grace: 1s", "ready: {command: test -f /tmp/up, period: 1s}")
		jobs[0] = withRuns(jobs[0], dir)
		jobs[0].Epoch = n
		l.start(c, jobs)
		return jobs
	}
	jobs := epoch(1, python(keeps, "print(os.listdir('/run/swarm/work'))"))
	if f := l.until(c, 1, task.Exited)[0]; f.Code != 0 {
		t.Errorf("%+v", f)
	}
	if got, want := l.lines(c, jobs[0]), "/run/swarm/work/x-7/epochs 0\n['x-7']"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	l.clean(c, jobs)
	jobs = epoch(2, python("import os, time", "print(open(os.environ['SWARM_WORK_DIR'] + '/epochs').read())", "open('/tmp/up', 'w')", "time.sleep(3600)"))
	if f := l.until(c, 1, task.Ready)[0]; f.Asks != "" {
		t.Errorf("before there is a stop file: %+v", f)
	}
	if err := os.WriteFile(filepath.Join(dir, "x-7", "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := l.until(c, 1, task.Ready)[0]; f.Asks != task.AskStop {
		t.Errorf("with a stop file: %+v", f)
	}
	if got := l.lines(c, jobs[0]); got != "0" {
		t.Errorf("the next epoch printed %q, want what the one before has written", got)
	}
	l.clean(c, jobs)
}

// TestHowAMemberEndedAfterAStop: with compat: oci its host says with its end that there is a stop file, and that it has failed if there is stop_fail; elsewhere
// an exit code is what it is.
func TestHowAMemberEndedAfterAStop(t *testing.T) {
	for name, tt := range map[string]struct {
		compat, makes string
		code          int
		want          work.Status
	}{
		"a stop file":              {"compat: oci", "stop", 0, work.Status{Asks: task.AskStop}},
		"a stop file, and a code":  {"compat: oci", "stop", 3, work.Status{Code: 3, Asks: task.AskStop}},
		"stop_fail":                {"compat: oci", "stop_fail", 0, work.Status{Code: -1, Text: "there is a file stop_fail in the folder of its run", Asks: task.AskFail}},
		"stop_fail, and a code":    {"compat: oci", "stop_fail", 3, work.Status{Code: 3, Asks: task.AskFail}},
		"another job":              {"grace: 1s", "stop", 0, work.Status{}},
		"another job's stop_fail":  {"grace: 1s", "stop_fail", 0, work.Status{}},
		"another file with an end": {"compat: oci", "other", 3, work.Status{Code: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			p := h.processes()
			j := withRuns(one(python("import os", "open(os.environ['SWARM_WORK_DIR'] + '/"+tt.makes+"', 'w')", fmt.Sprintf("raise SystemExit(%d)", tt.code)), "work_dir: runs", "command: train.py", tt.compat), t.TempDir())
			started(t, p, j)
			f := await(t, p, func(s work.Status) bool { return s.State == task.Exited })
			if f.Code != tt.want.Code || f.Asks != tt.want.Asks || f.Text != tt.want.Text {
				t.Errorf("%+v, want %+v", f, tt.want)
			}
			clean(t, p, j.Label)
		})
	}
	h := newHost(t)
	p, dir := h.processes(), t.TempDir()
	j := withRuns(one(python("import time", "time.sleep(3600)"), "work_dir: runs", "command: train.py", "grace: 1s", "compat: oci"), dir)
	started(t, p, j)
	if err := os.WriteFile(filepath.Join(dir, "x-7", "stop_fail"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := await(t, p, func(s work.Status) bool { return s.Asks != "" }); f.Asks != task.AskFail || f.State != task.Ready && f.State != task.Started {
		t.Errorf("%+v", f)
	}
	clean(t, p, j.Label)
}

// TestWordsToTheEpochBefore don't count in the next one of a job whose exits count, and those to this one stay, also if its host was restarted; other jobs
// end by a file as soon as it is there.
func TestWordsToTheEpochBefore(t *testing.T) {
	for name, tt := range map[string]struct {
		line string
		asks string
	}{"compat: oci": {"compat: oci", ""}, "another job": {"grace: 1s", task.AskStop}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			p, dir := h.processes(), t.TempDir()
			j := withRuns(one(python("import time", "time.sleep(3600)"), "work_dir: runs", "command: train.py", tt.line), dir)
			started(t, p, j)
			stop, fail := filepath.Join(dir, "x-7", "stop"), filepath.Join(dir, "x-7", "stop_fail")
			if err := errors.Join(os.WriteFile(stop, nil, 0o600), os.WriteFile(fail, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			await(t, p, func(s work.Status) bool { return s.Asks != "" })
			clean(t, p, j.Label)
			j.Epoch++
			started(t, p, j)
			if f := await(t, p, func(s work.Status) bool { return s.State == task.Ready }); f.Asks != tt.asks {
				t.Errorf("in the next epoch it asks for %q, want %q", f.Asks, tt.asks)
			}
			clean(t, p, j.Label)
			if err := errors.Join(os.RemoveAll(stop), os.WriteFile(stop, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			started(t, p, j) // again
			if f := await(t, p, func(s work.Status) bool { return s.Asks != "" }); f.Asks != task.AskStop {
				t.Errorf("what was asked in this epoch is lost: %+v", f)
			}
			clean(t, p, j.Label)
		})
	}
}

// TestAProgramThatStartsItsClusterItself finds a key that nobody else reads, in the folder of its member, and itself where its host's name leads.
func TestAProgramThatStartsItsClusterItself(t *testing.T) {
	h := newHost(t)
	p, dir := h.processes(), t.TempDir()
	j := withRuns(one(python(
		"import os, socket",
		"at = os.environ['OCI_CONFIG_FILE']",
		"key = [x for x in open(at) if x.startswith('key_file=')][0].strip()[9:]",
		"print(os.environ['OCI_IAM_TYPE'], [oct(os.stat(x).st_mode) for x in (at, key, os.path.dirname(at))], open(key).readline().strip(), [os.environ['JOB_OCID']])",
		"print(os.path.samefile(os.environ['OCI__WORK_DIR'], os.environ['SWARM_WORK_DIR']), socket.gethostbyname(socket.gethostname()).startswith('127.'))",
	), "work_dir: runs", "command: train.py", "compat: oci", "env: {CLUSTER_TYPE: DASK}"), dir)
	started(t, p, j)
	if f := await(t, p, func(s work.Status) bool { return s.State == task.Exited }); f.Code != 0 {
		t.Errorf("%+v", f)
	}
	if got, want := strings.Join(printed(t, p, j.Label), "\n"), "api_key ['0o100400', '0o100400', '0o40700'] -----BEGIN RSA PRIVATE KEY----- ['']\nTrue True"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
	clean(t, p, j.Label)
}

// TestAHostsNameLeadsToItsMember, of a program that starts its cluster itself, and to nowhere else for others. It takes root.
func TestAHostsNameLeadsToItsMember(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	own := ""
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && !n.IP.IsLoopback() {
			own = n.IP.String()
		}
	}
	if own == "" || os.Geteuid() != 0 {
		t.Skip("needs root and an address that is not loopback")
	}
	h := newHost(t)
	before, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for want, lines := range map[string]string{own: "env: {CLUSTER_TYPE: DASK}", before: "grace: 30s"} {
		p := h.processes()
		j := withRuns(one(python("import socket", "print(socket.gethostname())"), "work_dir: runs", "command: train.py", "compat: oci", lines), t.TempDir())
		j.World[0].Address = own
		started(t, p, j)
		if f := await(t, p, func(s work.Status) bool { return s.State == task.Exited }); f.Code != 0 {
			t.Errorf("%+v", f)
		}
		if got := strings.Join(printed(t, p, j.Label), "\n"); got != want {
			t.Errorf("%s: the host's name is %q, want %q", lines, got, want)
		}
		clean(t, p, j.Label)
	}
	if after, err := os.Hostname(); err != nil || after != before {
		t.Errorf("this machine's name is %q now, %v", after, err)
	}
}
