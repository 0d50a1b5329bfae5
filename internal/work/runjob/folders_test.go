package runjob_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// TestFoldersOfTheHost: a member has the folders that its host's owner has under the names of its volumes, and writes to those alone of which it said so.
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

// TestContainersHaveTheirRunsFolder and no other of it, also in the next epoch.
func TestContainersHaveTheirRunsFolder(t *testing.T) {
	l := newLab(t)
	c, dir := l.containers(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x-6"), 0o700); err != nil {
		t.Fatal(err)
	}
	for epoch, want := range []string{"/run/swarm/work/x-7/epochs 0\n['x-7']", "/run/swarm/work/x-7/epochs 01\n['x-7']"} {
		jobs := l.jobs(1, python(keeps, "print(os.listdir('/run/swarm/work'))"), "image: "+enginetest.TestImage, "work_dir: runs", "command: train.py")
		jobs[0] = withRuns(jobs[0], dir)
		jobs[0].Epoch = uint32(epoch) + 1
		l.start(c, jobs)
		if f := l.until(c, 1, task.Exited)[0]; f.Code != 0 {
			t.Errorf("%+v", f)
		}
		if got := l.lines(c, jobs[0]); got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
		l.clean(c, jobs)
	}
}
