package runjob_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
	"github.com/swarmd/swarmd/internal/work/upload"
)

// copiesInto copies what members leave into a folder.
func copiesInto(dir string, left *artifacts.Store) *upload.Copier {
	return &upload.Copier{
		Dir: filepath.Join(left.Dir, "orders"), Left: left, Log: slog.New(slog.DiscardHandler),
		Target: func(name string) string { return map[string]string{"bucket": "lab:m"}[name] },
		Run: func(_ context.Context, x upload.Copy) error {
			at := filepath.Join(dir, x.To)
			return errors.Join(os.RemoveAll(at), os.CopyFS(at, os.DirFS(x.From)))
		},
	}
}

// TestCopiesOfProcesses: what a member has left is copied before its end is reported, also by another process of this host than has started it.
func TestCopiesOfProcesses(t *testing.T) {
	h := newHost(t)
	p := h.processes()
	p.Goods.Left = storeIn(h.dir)
	p.Goods.Copies = copiesInto(h.dir, p.Goods.Left)
	j := one(python("import os", "open(os.environ['SWARM_ARTIFACTS'] + '/model', 'w').write('weights')"), "artifacts: {dir: /opt/ml, to: bucket, every: 5s}", "command: train.py")
	started(t, p, j)
	again := h.processes()
	again.Goods.Left, again.Goods.Copies = p.Goods.Left, copiesInto(h.dir, p.Goods.Left)
	if found := await(t, again, exited); found.Code != 0 {
		t.Errorf("%+v", found)
	}
	at := filepath.Join(h.dir, "lab:m/x-7/0/node/0/model")
	if raw, err := os.ReadFile(at); string(raw) != "weights" || err != nil {
		t.Errorf("%q, %v", raw, err)
	}
	clean(t, again, j.Label)
	if d := cmp.Diff(map[string]string{"node/0/model": "weights"}, left(t, p.Goods.Left, "7")); d != "" {
		t.Error(d)
	}

	// One that is ended is copied as it is cleaned up.
	ended := one(python("import os, time", "open(os.environ['SWARM_ARTIFACTS'] + '/model', 'w').write('half')", "time.sleep(3600)"), "artifacts: {dir: /opt/ml, to: bucket}", "command: train.py")
	ended.Epoch = 2
	started(t, again, ended)
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for name := filepath.Join(again.Goods.Left.Dir, "live/7_0000000002_0000000000/node/model"); ; <-ticks.C {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			break
		}
	}
	clean(t, again, ended.Label)
	if raw, err := os.ReadFile(filepath.Join(h.dir, "lab:m/x-7/1/node/0/model")); string(raw) != "half" || err != nil {
		t.Errorf("%q, %v", raw, err)
	}
	// One whose last copy is in vain, here as what was noted of it is damaged, leaves nothing either, and says so.
	lost := one(python("import time", "time.sleep(3600)"), "artifacts: {dir: /opt/ml, to: bucket}", "command: train.py")
	lost.Epoch = 3
	started(t, again, lost)
	if err := os.WriteFile(filepath.Join(again.Goods.Left.Dir, "orders/7_0000000003_0000000000.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	last := h.processes()
	last.Goods.Left, last.Goods.Copies = p.Goods.Left, copiesInto(h.dir, p.Goods.Left)
	for range 2 { // whoever asks again has the same answer
		if parting, err := work.PartingOf(last.Clean(t.Context(), lost.Label)); err != nil || parting == nil || parting.Code == 0 {
			t.Errorf("%+v, %v", parting, err)
		}
	}
	for dir, want := range map[string]int{"orders": 1, "live": 0, "linked": 0} { // the note of what was given up stays for a day
		if left, err := os.ReadDir(filepath.Join(again.Goods.Left.Dir, dir)); err != nil || len(left) != want {
			t.Error(dir, left, err)
		}
	}
}

// TestCopiesOfContainers: the same of what is left in a container, whose program may not lead what copies it elsewhere.
func TestCopiesOfContainers(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, engine.ImagePYT, "scripts/images pyt")
	jobs := l.jobs(1, python("import os", "os.chdir('/opt/ml')", "open('model', 'w').write('weights')", "os.symlink('/etc', 'etc')"),
		"image: "+engine.ImagePYT, "artifacts: {dir: /opt/ml, to: bucket}", "command: train.py")
	c := l.containers()
	c.Goods.Left = storeIn(l.dir)
	c.Goods.Copies = copiesInto(l.dir, c.Goods.Left)
	l.start(c, jobs)
	const leftOut = "1 entry of what it has left was not copied to target bucket"
	for _, f := range l.until(c, 1, task.Exited) {
		if f.Code != 0 || !strings.HasPrefix(f.Text, leftOut) {
			t.Errorf("%+v: %s", f, l.lines(c, jobs[0]))
		}
	}
	var all []string
	err := filepath.WalkDir(filepath.Join(l.dir, "lab:m"), func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, filepath.Base(name))
		}
		return err
	})
	if fmt.Sprint(all) != "[model]" || err != nil {
		t.Error(all, err)
	}
	if p, err := work.PartingOf(c.Clean(t.Context(), jobs[0].Label)); err != nil || p == nil || p.Code != 0 || !strings.HasPrefix(p.Text, leftOut) {
		t.Errorf("%+v, %v", p, err)
	}
	l.clean(c, jobs)
}
