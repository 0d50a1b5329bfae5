package swop

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
)

// TestArtifactsAreSwept: what a member has left that is not hosted any more is kept as soon as the swarm has shown what is, and from then on.
func TestArtifactsAreSwept(t *testing.T) {
	s := &artifacts.Store{Dir: t.TempDir(), Most: 1 << 20, Age: 24 * time.Hour, Log: slog.New(slog.DiscardHandler)}
	makes := func(member uint32) {
		dir, err := s.Make(work.Label{Assignment: "7", Epoch: 1, Member: member}, "node", os.Geteuid(), os.Getegid())
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	live := func(want int) {
		t.Helper()
		synctest.Wait()
		if all, err := os.ReadDir(filepath.Join(s.Dir, "live")); err != nil || len(all) != want {
			t.Error(all, err)
		}
	}
	makes(0)
	makes(1)
	synctest.Test(t, func(t *testing.T) {
		l := Logs{Node: "h", SwarmID: func() string { return "s" }, View: NewView(), Left: s}
		go func() { _ = sweepLeft(t.Context(), l, s.Log) }()
		live(2)
		l.View.Take([]task.Hosted{{Request: task.Request{ID: "7"}, Epoch: 1, Members: []task.HostedMember{{Index: 1}}}})
		live(1)
		l.View.Take(nil)
		live(1)
		time.Sleep(sweepEvery)
		live(0)
	})
}

// TestArtifactsOfARelativeStateDir: members, which have other working directories, are told where their folder is from the root on.
func TestArtifactsOfARelativeStateDir(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := leftOf(Config{StateDir: "state", Policy: &policy.Policy{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := s.Make(work.Label{Assignment: "7", Epoch: 1}, "node", os.Geteuid(), os.Getegid())
	if err != nil || !filepath.IsAbs(dir) {
		t.Fatalf("%q, %v", dir, err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if from, err := filepath.Rel(filepath.Join(here, "state"), dir); err != nil || !filepath.IsLocal(from) {
		t.Errorf("%q is not in %q", dir, here)
	}
}

// fetched has a task once an SN answers.
type fetched struct{ err error }

func (f *fetched) Task(_ context.Context, name string) (*task.Task, error) {
	return &task.Task{Name: name}, f.err
}

// keeps is a guard that lets one assignment go on.
type keeps struct{ work.Guard }

func (keeps) Stays(_ context.Context, h task.Hosted, t *task.Task) work.Answer {
	return work.Answer{May: map[bool]work.May{true: work.Yes}[h.ID == "7" && t.Name == "job"]}
}

// TestWhatIsCopiedStays: the owner is asked about what the swarm shows, for which is waited.
func TestWhatIsCopiedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view, tasks := NewView(), &fetched{err: errors.New("no SN")}
		stays := staying(view, tasks, keeps{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if a := stays(ctx, work.Label{Assignment: "7", Epoch: 2}); a.May != work.NotYet || ctx.Err() == nil {
			t.Errorf("%+v", a)
		}
		view.Take([]task.Hosted{{Request: task.Request{ID: "7", Task: "job"}, Epoch: 2}, {Request: task.Request{ID: "8", Task: "job"}, Epoch: 1}})
		if a := stays(t.Context(), work.Label{Assignment: "7", Epoch: 2}); a.May != work.NotYet {
			t.Errorf("%+v", a)
		}
		tasks.err = nil
		for l, want := range map[work.Label]work.May{
			{Assignment: "7", Epoch: 2}: work.Yes, {Assignment: "8", Epoch: 1}: work.No, {Assignment: "7", Epoch: 1}: work.Yes, {Assignment: "9", Epoch: 1}: work.Yes,
		} {
			if a := stays(t.Context(), l); a.May != want {
				t.Errorf("%+v: %+v", l, a)
			}
		}
	})
}
