package runjob_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work/artifacts"
)

func storeIn(dir string) *artifacts.Store {
	return &artifacts.Store{Dir: filepath.Join(dir, "artifacts"), Most: 1 << 20, Age: time.Hour, Log: slog.New(slog.DiscardHandler)}
}

// left are the files that members of an assignment have left.
func left(t *testing.T, s *artifacts.Store, assignment string) map[string]string {
	t.Helper()
	var b bytes.Buffer
	all := map[string]string{}
	if err := s.Pack(t.Context(), artifacts.Of{Assignment: assignment}, &b, func(from, words string) error {
		if words != "it has left nothing" && !strings.HasPrefix(words, "it has not ended, ") {
			return errors.New(from + words)
		}
		return nil
	}); errors.Is(err, artifacts.ErrNone) {
		return all
	} else if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		raw, more := io.ReadAll(r)
		if err := errors.Join(err, more); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			all[h.Name] = string(raw)
		}
	}
}

// TestArtifactsOfProcesses: what a member leaves stays when all else of it goes, also of one that failed; of one that was not started nothing does.
func TestArtifactsOfProcesses(t *testing.T) {
	h := newHost(t)
	p := h.processes()
	p.Goods.Left = storeIn(h.dir)
	j := one(python("import os", "open(os.environ['SWARM_ARTIFACTS'] + '/model', 'w').write('weights')", "raise SystemExit(3)"), "artifacts: {dir: /opt/ml}", "command: train.py")
	if _, err := p.Goods.Left.Make(j.Label, j.Group, os.Geteuid(), os.Getegid()); err != nil { // and that was all that could be made
		t.Fatal(err)
	}
	clean(t, p, j.Label)
	if live, err := os.ReadDir(filepath.Join(p.Goods.Left.Dir, "live")); err != nil || len(live) > 0 {
		t.Error(live, err)
	}
	if err := p.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	clean(t, p, j.Label)
	if got := left(t, p.Goods.Left, "7"); len(got) > 0 {
		t.Errorf("of one that was not started: %v", got)
	}
	started(t, p, j)
	if found := await(t, p, exited); found.Code != 3 {
		t.Errorf("%+v", found)
	}
	if got := left(t, p.Goods.Left, "7"); len(got) > 0 {
		t.Errorf("before it is cleaned up: %v", got)
	}
	clean(t, p, j.Label)
	if d := cmp.Diff(map[string]string{"node/0/model": "weights"}, left(t, p.Goods.Left, "7")); d != "" {
		t.Error(d)
	}
	if live, err := os.ReadDir(filepath.Join(p.Goods.Left.Dir, "live")); err != nil || len(live) > 0 {
		t.Error(live, err)
	}
}

// TestArtifactsOfContainers: the folder is where the job says, and stays on the host.
func TestArtifactsOfContainers(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, engine.ImagePYT, "scripts/images pyt")
	jobs := l.jobs(1, python("import os", "assert os.environ['SWARM_ARTIFACTS'] == '/opt/ml/out'", "open('/opt/ml/out/model', 'w').write('weights')"),
		"image: "+engine.ImagePYT, "artifacts: {dir: /opt/ml/out}", "command: train.py")
	c := l.containers()
	c.Goods.Left = storeIn(l.dir)
	l.start(c, jobs)
	for _, f := range l.until(c, 1, task.Exited) {
		if f.Code != 0 {
			t.Errorf("%+v: %s", f, l.lines(c, jobs[0]))
		}
	}
	l.clean(c, jobs)
	if d := cmp.Diff(map[string]string{"node/0/model": "weights"}, left(t, c.Goods.Left, "7")); d != "" {
		t.Error(d)
	}
}
