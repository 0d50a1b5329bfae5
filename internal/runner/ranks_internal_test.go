package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/ranks"
	"github.com/swarmd/swarmd/internal/rendezvous"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
)

// startedWith is a runtime that notes what a program is started with.
type startedWith struct{ env []string }

func (*startedWith) name() string      { return "" }
func (*startedWith) isolation() string { return "" }

func (s *startedWith) start(_ context.Context, env []string, _ *rendezvous.Meeting) (Running, error) {
	s.env = env
	return nil, nil //nolint:nilnil // nobody looks at it
}

// TestInterfacesThatAreNamed holds that rank 0 has the interface that its user has named, and else what all ranks are told.
func TestInterfacesThatAreNamed(t *testing.T) {
	env := []string{"RANK=0", "MASTER_PORT=29400", "GLOO_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth0"}
	for _, tt := range []struct{ said, want []string }{
		{nil, env},
		{[]string{"GLOO_SOCKET_IFNAME=ib0", "MASTER_PORT=1", "NCCL_SOCKET_IFNAME_X=1"}, []string{"RANK=0", "MASTER_PORT=29400", "NCCL_SOCKET_IFNAME=eth0"}},
	} {
		how := &startedWith{}
		r := &Runner{how: how, cfg: Config{Spec: Spec{Env: tt.said}}}
		if _, err := r.first(nil).Start(t.Context(), env, nil); err != nil || !slices.Equal(how.env, tt.want) {
			t.Errorf("%q: started with %q, %v; want %q", tt.said, how.env, err, tt.want)
		}
	}
}

// orphaned is an engine with containers that a daemon before has left.
type orphaned struct {
	Containers
	left   *[]container.Found
	stuck  error // why none can be removed
	starts int
}

func (o *orphaned) Find(context.Context, string, string) ([]container.Found, error) {
	return *o.left, nil
}

func (o *orphaned) Remove(_ context.Context, f container.Found) error {
	if o.stuck != nil {
		return o.stuck
	}
	*o.left = slices.DeleteFunc(*o.left, func(x container.Found) bool { return x.ID == f.ID })
	return nil
}

func (o *orphaned) Start(context.Context, container.Spec) (Running, error) {
	o.starts++
	return nil, errors.New("it is only counted")
}

// leftBehind are containers of a node with a journal in dir, beside an engine in which a run before has left some. Several: with other ranks.
func leftBehind(t *testing.T, several *ranks.Ranks, dir string, left ...container.Found) *containers {
	t.Helper()
	cfg := Config{Spec: Spec{ML: &container.Spec{}, Ranks: several}, StateDir: dir, Log: slog.New(slog.DiscardHandler)}
	spec, err := mlSpec(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &containers{cfg: cfg, spec: spec, launcher: &orphaned{left: &left}}
	c.journal = session.OpenJournal(c.journalPath(), slog.New(slog.DiscardHandler))
	return c
}

// TestRanksAreNotAdopted: a program that is one of several ranks is removed where another one is adopted, and does not wait for the next daemon.
func TestRanksAreNotAdopted(t *testing.T) {
	for _, tt := range []struct {
		before, now *ranks.Ranks
		adopted     bool
	}{{nil, nil, true}, {&ranks.Ranks{}, &ranks.Ranks{}, false}, {&ranks.Ranks{}, nil, false}, {nil, &ranks.Ranks{}, false}} {
		dir := t.TempDir()
		first := leftBehind(t, tt.before, dir)
		if slices.Contains(first.spec.Env, "SWARM_RECONNECT="+reconnect) != (tt.before == nil) {
			t.Errorf("several ranks: %t, its variables are %q", tt.before != nil, first.spec.Env)
		}
		first.checked = true
		if _, err := first.start(t.Context(), nil, nil); err == nil {
			t.Error("it was not started")
		}
		c := leftBehind(t, tt.now, dir, container.Found{Incarnation: first.journal.Record().Incarnation, State: "running"})
		saved, err := c.find(t.Context())
		if err != nil || saved != nil || (c.found != nil) != tt.adopted || (len(c.others) > 0) != !tt.adopted || c.lost || c.rebuilt != "" {
			t.Errorf("several ranks: %t, now %t: found %v, others %v, lost %t, rebuilt %q, %v", tt.before != nil, tt.now != nil, c.found, c.others, c.lost, c.rebuilt, err)
		}
	}
}

// finishedRecord keeps that a program of c has its final model, and that it has ended so; nil: nobody saw that.
func finishedRecord(t *testing.T, c *containers, exit *int) {
	t.Helper()
	layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{2}}})
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("ab", 16)
	rec := session.Record{Version: 1, Incarnation: "i", Program: c.fingerprint(), Isolation: c.isolation(), Exit: exit, Session: &session.Saved{
		ID: id, Contract: "digits", Open: round.Open{Session: id, Contract: "digits", Terms: round.Terms{Layout: layout.Canonical()}}, Finished: true, Final: &wire.SyncResponse{},
	}}
	b, err := json.Marshal(rec)
	if err == nil {
		err = os.WriteFile(c.journalPath(), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.journal = session.OpenJournal(c.journalPath(), slog.New(slog.DiscardHandler)); c.journal.Record().Session == nil {
		t.Fatal("the record can't be read")
	}
}

// TestRanksThatWereGivenTheFinalModel: rank 0 that was killed, or failed, before it did anything with the final model is started again; one that has ended
// well is not, also after a second kill of its daemon.
func TestRanksThatWereGivenTheFinalModel(t *testing.T) {
	ended := func(code int) container.Found {
		return container.Found{ID: "c", Incarnation: "i", State: "exited", ExitCode: code, Finished: time.Now()}
	}
	zero, one := 0, 1
	for _, tt := range []struct {
		name     string
		exit     *int
		left     []container.Found
		finished bool
	}{
		{"it runs", nil, []container.Found{{ID: "c", Incarnation: "i", State: "running"}}, false},
		{"it has failed", nil, []container.Found{ended(1)}, false},
		{"it is gone", nil, nil, false},
		{"it has ended well", nil, []container.Found{ended(0)}, true},
		{"another has ended well", nil, []container.Found{{ID: "c", Incarnation: "j", State: "exited", Finished: time.Now()}}, false},
		{"it was seen to end well", &zero, nil, true},
		{"it was seen to fail", &one, nil, false},
	} {
		c := leftBehind(t, &ranks.Ranks{}, t.TempDir(), tt.left...)
		finishedRecord(t, c, tt.exit)
		for _, start := range []string{"first", "second"} {
			saved, err := c.find(t.Context())
			if err != nil || (saved != nil) != tt.finished || c.found != nil || len(c.others) != len(tt.left) {
				t.Errorf("%s, %s start: finished %t, found %v, others %v, %v; want finished %t", tt.name, start, saved != nil, c.found, c.others, err, tt.finished)
			}
			if err := c.clean(t.Context()); err != nil {
				t.Error(err)
			}
			tt.left = nil
			c.journal = session.OpenJournal(c.journalPath(), slog.New(slog.DiscardHandler))
		}
	}
}

// TestRanksThatAreStoppedWithTheFinalModel may not have saved it yet: only a program that is alone has all that it needs from its bridge.
func TestRanksThatAreStoppedWithTheFinalModel(t *testing.T) {
	for _, several := range []*ranks.Ranks{{}, nil} {
		c := leftBehind(t, several, t.TempDir())
		finishedRecord(t, c, nil)
		c.note(session.Finished, 143, true)
		c.journal = session.OpenJournal(c.journalPath(), slog.New(slog.DiscardHandler))
		if saved, err := c.find(t.Context()); err != nil || (saved != nil) != (several == nil) {
			t.Errorf("of ranks %t: finished %t, %v", several != nil, saved != nil, err)
		}
	}
}

// onlyRuns is a swarm with jobs beside SLs.
type onlyRuns struct {
	ranks.Swarm
	all   []*swarmv1.Assignment
	ended []string
}

func (o *onlyRuns) ListAssignments(context.Context) (*swarmv1.ListAssignmentsResponse, error) {
	return &swarmv1.ListAssignmentsResponse{Assignments: o.all}, nil
}

func (o *onlyRuns) CancelAssignment(_ context.Context, id, _ string) (*swarmv1.Assignment, error) {
	o.ended = append(o.ended, id)
	return &swarmv1.Assignment{Id: id}, nil
}

// TestRanksOfARunBeforeAreEnded whether this run has ranks or not, before it is known whether it starts any.
func TestRanksOfARunBeforeAreEnded(t *testing.T) {
	for _, several := range []*ranks.Ranks{nil, {}} {
		o := &onlyRuns{all: []*swarmv1.Assignment{{Id: "1", Beside: "sl-1", Phase: "over"}, {Id: "2", Beside: "sl-1", Phase: "running"}, {Id: "3", Beside: "sl-2", Phase: "running"}, {Id: "4", Phase: "running"}}}
		r := &Runner{cfg: Config{Spec: Spec{Ranks: several}, Node: "sl-1", Log: slog.New(slog.DiscardHandler)}}
		joinSwarm(t.Context(), r, o)
		if !slices.Equal(o.ended, []string{"2"}) || (r.swarm != nil) != (several != nil) {
			t.Errorf("several ranks: %t, ended %q, starts ranks: %t", several != nil, o.ended, r.swarm != nil)
		}
	}
}

// TestTwoRanksZero: no rank 0 is started beside one that can't be removed, at the node's start or later. A program by itself needs no other's end.
func TestTwoRanksZero(t *testing.T) {
	for _, several := range []*ranks.Ranks{nil, {}} {
		for _, stuck := range []error{nil, errors.New("the engine hangs")} {
			c := leftBehind(t, several, t.TempDir(), container.Found{ID: "c", State: "running"})
			engine := c.launcher.(*orphaned)
			c.checked, engine.stuck = true, stuck
			wrong := several != nil && stuck != nil
			if _, err := c.start(t.Context(), nil, nil); (engine.starts == 0) != wrong || wrong && !errors.Is(err, stuck) {
				t.Errorf("several ranks: %t, removal: %v: %d starts, %v", several != nil, stuck, engine.starts, err)
			}
			if several != nil && (len(*engine.left) == 0) != (stuck == nil) {
				t.Errorf("removal: %v: left %v", stuck, *engine.left)
			}
			if _, err := c.find(t.Context()); err != nil {
				t.Error(err)
			}
			if err := c.clean(t.Context()); (err != nil) != wrong {
				t.Errorf("several ranks: %t, removal: %v: cleaned with %v", several != nil, stuck, err)
			}
		}
	}
}
