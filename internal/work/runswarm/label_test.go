package runswarm_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/work"
)

// restarted are the processes of a SWOP that was started again, and its log.
func (h host) restarted(t *testing.T) (work.Executor, *bytes.Buffer) {
	t.Helper()
	p, log := h.processes(t), &bytes.Buffer{}
	p.Log = slog.New(slog.NewTextHandler(log, nil))
	return p, log
}

// damage overwrites a file of the only member.
func (h host) damage(t *testing.T, file, text string) (dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "state", "members", "*", file))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(files[0])
}

// TestADamagedLabelHidesNoMember: a restarted SWOP finds the others and, as failed, the damaged one, names that once, and starts what comes.
func TestADamagedLabelHidesNoMember(t *testing.T) {
	h := newHost(t)
	p, j := h.processes(t), h.job(t, "waits.py")
	damaged := filepath.Join(p.Dir, "members", "6-1-0")
	if err := os.MkdirAll(damaged, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "member.json"), []byte(`{"Swarm":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	again, log := h.restarted(t)
	for range 2 {
		found, err := again.Find(t.Context())
		if err != nil || len(found) != 2 || found[1].Label != j.Label || found[1].State != task.Started {
			t.Fatalf("found %+v, %v", found, err)
		}
		if f := found[0]; (f.Label != work.Label{Swarm: "s", Node: "swop-1", Assignment: "6", Epoch: 1}) || f.State != task.Exited || f.Code == 0 || f.Text == "" {
			t.Fatalf("the damaged one: %+v", f)
		}
	}
	if n := strings.Count(log.String(), damaged); n != 1 {
		t.Errorf("the log names it %d times:\n%s", n, log)
	}
	if err := p.Clean(t.Context(), work.Label{Assignment: "6", Epoch: 1}); err != nil {
		t.Error(err)
	}
	clean(t, p, j.Label)
}

// TestAMemberIsKnownByItsSecondLabel: its training goes on.
func TestAMemberIsKnownByItsSecondLabel(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"Swarm":"s","Node":"swop-1","Assignment":"8","Epoch":1,"Member":2}`, strings.Repeat(" ", 1<<17)} {
		h := newHost(t)
		p, j := h.processes(t), h.job(t, "waits.py")
		if _, err := p.Start(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		dir := h.damage(t, "member.json", text)
		again, log := h.restarted(t)
		if found, err := again.Find(t.Context()); err != nil || len(found) != 1 || found[0].Label != j.Label || found[0].State != task.Started {
			t.Errorf("%.20q: found %+v, %v", text, found, err)
		}
		if !strings.Contains(log.String(), dir) {
			t.Errorf("%.20q: the log says nothing of %s:\n%s", text, dir, log)
		}
		clean(t, p, j.Label)
	}
}

// TestWhatNoLabelTellsIsEndedAllTheSame: its host is told that it failed, keeps what comes from starting beside its SLs, and ends them.
func TestWhatNoLabelTellsIsEndedAllTheSame(t *testing.T) {
	h := newHost(t)
	p, j := h.processes(t), h.job(t, "waits.py")
	if _, err := p.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	h.damage(t, "member.json", "{")
	if err := os.Remove(filepath.Join(h.damage(t, "begun", "{"), "member.json")); err != nil {
		t.Fatal(err)
	}
	if found, err := p.Find(t.Context()); err != nil || len(found) != 1 || found[0].Label != j.Label || found[0].State != task.Exited || found[0].Code == 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	if live, err := registry.List("runswarm-test"); err != nil || len(live) != 2 {
		t.Errorf("who looks ends nothing: %+v, %v", live, err)
	}
	clean(t, h.processes(t), j.Label)
}
