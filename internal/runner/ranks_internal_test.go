package runner

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/ranks"
	"github.com/swarmd/swarmd/internal/session"
)

// startedWith is a runtime that notes what a program is started with.
type startedWith struct{ env []string }

func (*startedWith) name() string      { return "" }
func (*startedWith) isolation() string { return "" }

func (s *startedWith) start(_ context.Context, env []string) (Running, error) {
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
		if _, err := r.first(nil).Start(t.Context(), env); err != nil || !slices.Equal(how.env, tt.want) {
			t.Errorf("%q: started with %q, %v; want %q", tt.said, how.env, err, tt.want)
		}
	}
}

// orphaned is an engine with a container that a daemon before has left.
type orphaned struct{ Containers }

func (orphaned) Find(context.Context, string, string) ([]container.Found, error) {
	return []container.Found{{Incarnation: "i", State: "running"}}, nil
}

// TestRanksAreNotAdopted: a program that is one of several ranks is removed where another one is adopted, and does not wait for the next daemon.
func TestRanksAreNotAdopted(t *testing.T) {
	for _, several := range []*ranks.Ranks{nil, {}} {
		cfg := Config{Spec: Spec{ML: &container.Spec{}, Ranks: several}}
		spec, err := mlSpec(cfg)
		if err != nil || slices.Contains(spec.Env, "SWARM_RECONNECT="+reconnect) != (several == nil) {
			t.Errorf("several ranks: %t, its variables are %q, %v", several != nil, spec.Env, err)
		}
		c := &containers{cfg: cfg, spec: spec, launcher: orphaned{}, journal: session.OpenJournal(filepath.Join(t.TempDir(), journalName), slog.New(slog.DiscardHandler))}
		c.journal.Begin("i", c.fingerprint(), c.isolation())
		saved, err := c.find(t.Context())
		if err != nil || saved != nil || (c.found != nil) != (several == nil) || (len(c.others) > 0) != (several != nil) || c.lost || c.rebuilt != "" {
			t.Errorf("several ranks: %t, found %v, others %v, lost %t, rebuilt %q, %v", several != nil, c.found, c.others, c.lost, c.rebuilt, err)
		}
	}
}
